"""One module a verb: its options, one call, and how the answer is printed."""
