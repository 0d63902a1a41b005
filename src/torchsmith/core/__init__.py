"""Shared helpers: errors, processes, git, files, locks, TOML and text."""
