"""Recipes: written from templates that look like Nix, and read, whoever wrote them."""
