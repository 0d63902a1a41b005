"""What to do when a build fails: which known error it is, and the hashes that sources really have."""
