"""Plans: what torchsmith.toml wants against what lies there, as actions with reasons, and carrying them
out."""
