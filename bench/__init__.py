"""Ratios against rivals, each pair measured in the same run."""
