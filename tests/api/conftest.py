"""Real Nix with a store that it can build in."""

from tests.build.conftest import _store as _store
from tests.build.conftest import nix_here as nix_here
