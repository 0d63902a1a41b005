"""One module for each verb: its request, its function, and how the report is printed."""
