"""Recipes: written from templates that read like Nix, and read back from any hand."""
