"""The mutation harness: right recipes, one mistake each, and whether the audit notices and names it."""
