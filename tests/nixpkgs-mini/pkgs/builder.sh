# The builder of every miniature package: the host's tools, then the phases.
set -eo pipefail
export PATH=/usr/local/bin:/usr/bin:/bin
source "$setup"
genericBuild
