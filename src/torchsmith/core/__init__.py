"""The border of the program: people's errors, processes, files, locks and the clock."""
