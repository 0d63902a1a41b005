"""What a build gains over another one: measured in turns, and compared with the noise."""
