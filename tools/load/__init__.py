"""A farm of loopback builders that die while they build a thousand derivations."""
