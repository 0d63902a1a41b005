"""Publishing with Flox: what must hold first, one commit for everything, and a report of what is where."""
