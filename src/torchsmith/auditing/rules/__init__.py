"""The rules, grouped by what they are about."""
