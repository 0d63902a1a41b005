"""Which build is mine: what a machine is, which variant suits it, and which variants suit a fleet."""
