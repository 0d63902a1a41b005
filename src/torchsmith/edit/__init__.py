"""Plans, alignment, and changes of lines and packages."""
