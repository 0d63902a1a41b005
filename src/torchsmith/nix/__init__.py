"""Nix, as far as torchsmith asks it: evaluating recipes, and reading the derivations they become."""
