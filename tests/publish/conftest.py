"""The workspace of the build tests."""

from tests.build.conftest import _pattern as _pattern
from tests.build.conftest import _store as _store
from tests.build.conftest import call as call
from tests.build.conftest import nix_here as nix_here
from tests.build.conftest import own_store as own_store
from tests.build.conftest import place as place
