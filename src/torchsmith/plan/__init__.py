"""What is wanted against what is there, and what a change would do."""
