"""Built libraries as they are: which GPU and CPU code they hold, and whether a name keeps its promise."""
