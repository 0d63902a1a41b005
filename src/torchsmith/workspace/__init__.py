"""A workspace: what torchsmith.toml asks for, and the folder it is in."""
