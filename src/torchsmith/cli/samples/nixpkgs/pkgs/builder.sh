# The builder of every miniature package: the host's tools, then the phases.
set -eo pipefail
export PATH=/usr/local/bin:/usr/bin:/bin
if [ -n "${NIX_ATTRS_SH_FILE:-}" ]; then
  # Attributes are shell variables, lists among them arrays; only `env` and the outputs reach the environment.
  source "$NIX_ATTRS_SH_FILE"
  for name in "${!env[@]}"; do export "$name=${env[$name]}"; done
  for name in "${!outputs[@]}"; do export "$name=${outputs[$name]}"; done
  listed=${!outputs[*]}
  unset outputs
  outputs=$listed
  for name in $(sed -n 's/^declare -a \(\w*\)=.*/\1/p' "$NIX_ATTRS_SH_FILE"); do
    declare -n list=$name
    words=${list[*]}
    unset -n list
    unset "$name"
    printf -v "$name" %s "$words"
  done
fi
source "$setup"
genericBuild
