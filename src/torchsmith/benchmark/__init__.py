"""What a build gains over another one: measured in turns, judged against the noise, drawn."""
