#!/bin/sh
# Install the system parts that tests need, if this user may; otherwise name the command that does.
set -eu

PATH="$PATH:/usr/sbin" # where sshd is, whoever asks
need=
want() { # command, package
    command -v "$1" >/dev/null 2>&1 || need="$need $2"
}

case $(uname -m) in
    x86_64) want aarch64-linux-gnu-g++ g++-aarch64-linux-gnu; want x86_64-linux-gnu-g++ g++ ;;
    aarch64) want x86_64-linux-gnu-g++ g++-x86-64-linux-gnu; want aarch64-linux-gnu-g++ g++ ;;
esac
want ccache ccache
want chromium-headless-shell chromium-headless-shell
want clang++ clang
want clang-19 clang-19 # compiles for AMD GPUs, with what follows
want /usr/lib/llvm-19/bin/clang-offload-bundler clang-tools-19
want ld.lld-19 lld-19
want llc-19 llvm-19
want llc-14 llvm-14 # an older table of AMD GPUs
want fish fish
want gcc gcc
want git git
want ninja ninja-build
want nix-instantiate nix-bin
want patch patch
want sshd openssh-server
want ssh openssh-client
want zsh zsh
[ -n "$need" ] || exit 0

if ! command -v apt-get >/dev/null 2>&1; then
    echo "tests will be skipped that need:$need" >&2
    exit 0
fi
if [ "$(id -u)" = 0 ]; then
    sudo=
elif sudo -n true 2>/dev/null; then
    sudo=sudo
else
    echo "tests will be skipped that need:$need" >&2
    echo "to run them: sudo apt-get install -y$need" >&2
    exit 0
fi
echo "installing:$need" >&2
$sudo apt-get update -q >/dev/null
# shellcheck disable=SC2086
$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -q -y $need >/dev/null
