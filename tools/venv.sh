#!/bin/sh
# Make a virtual environment with torchsmith in it, with extras if told. Debian and Ubuntu keep venv in a package of its own.
set -eu
python=$1
venv=$2
extras=${3:-}

if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    echo "torchsmith needs Python 3.11 or newer; $python is $("$python" --version). Try: make PYTHON=python3.12 ..." >&2
    exit 3
fi
if ! "$python" -c 'import ensurepip' 2>/dev/null; then
    package=$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
    echo "$python cannot make virtual environments; installing $package" >&2
    if [ "$(id -u)" = 0 ]; then
        sudo=
    elif sudo -n true 2>/dev/null; then
        sudo=sudo
    else
        echo "run: sudo apt-get install -y $package" >&2
        exit 3
    fi
    $sudo apt-get update -q >&2
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -q -y "$package" >&2
fi
"$venv/bin/python" -m pip --version >/dev/null 2>&1 || "$python" -m venv "$venv"
"$venv/bin/python" -m pip install --quiet --editable ".$extras"
