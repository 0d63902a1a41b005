"""Real Nix with a store that it can build in."""

from tests.building.conftest import _store as _store
from tests.building.conftest import nix_here as nix_here
