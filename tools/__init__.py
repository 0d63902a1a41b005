"""Work on the project itself: generated pages."""
