"""The page and the pictures: what other packages know of a workspace, drawn."""
