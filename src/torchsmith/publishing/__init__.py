"""Publishing with Flox: what must hold first, from a clean clone of each commit, and a report."""
