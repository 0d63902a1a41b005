"""Shared helpers: errors, processes, git, files, locks, TOML, text and the clock."""
