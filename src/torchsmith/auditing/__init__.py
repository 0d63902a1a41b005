"""Audit: what is wrong with a recipe, where, and what to do about it."""
