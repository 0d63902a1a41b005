# Source this in a clone: a small nixpkgs that builds in seconds, and a Nix store of its own below $PWD/small-world.
here=$(CDPATH='' cd -- "$(dirname -- "${BASH_SOURCE:-$0}")/.." && pwd)
export TORCHSMITH_NIXPKGS="$here/tests/nixpkgs-mini" TORCHSMITH_CACHE="$PWD/small-world/cache"
export NIX_STORE_DIR="$PWD/small-world/store" NIX_STATE_DIR="$PWD/small-world/state"
export NIX_LOG_DIR="$PWD/small-world/log" NIX_CONF_DIR="$PWD/small-world/conf"
mkdir -p "$NIX_CONF_DIR"
printf 'sandbox = false\nbuild-users-group =\nsubstitute = false\n' > "$NIX_CONF_DIR/nix.conf"
