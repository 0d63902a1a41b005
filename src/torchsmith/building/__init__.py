"""Building a matrix: jobs out of derivations, their order, the backends that build them, and the farm."""
