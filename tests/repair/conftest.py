"""The workspace and the store of the build tests."""

from tests.building.conftest import _pattern as _pattern
from tests.building.conftest import _store as _store
from tests.building.conftest import nix_here as nix_here
from tests.building.conftest import place as place
