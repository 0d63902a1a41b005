"""Running Nix: evaluating recipes, and reading their derivations."""
