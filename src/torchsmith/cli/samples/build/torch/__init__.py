"""The place of torch in the sample of a build: its libraries can be read, and nothing can be run."""
