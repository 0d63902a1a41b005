# Phases and the few functions of nixpkgs' stdenv that recipes call.
export HOME=/homeless-shelter
export SOURCE_DATE_EPOCH=315532800
export PYTHONDONTWRITEBYTECODE=1 # what is in the store stays as it was built
export NIX_BUILD_TOP=${NIX_BUILD_TOP:-$PWD}
: "${NIX_BUILD_CORES:=1}"

# A compiler for this derivation's system: the host's own, or Debian's cross compiler.
machine=${system%-linux}
if command -v "$machine-linux-gnu-gcc" >/dev/null; then
  export CC=$machine-linux-gnu-gcc
elif [ "$machine" = "$(uname -m)" ]; then
  export CC=gcc
else
  export CC=no-compiler-for-$system
fi

runHook() {
  local hook=$1
  if declare -F "$hook" > /dev/null; then
    "$hook"
  elif [ -n "${!hook:-}" ]; then
    eval "${!hook}"
  fi
}

runPhase() {
  local phase=$1
  echo "@nix { \"action\": \"setPhase\", \"phase\": \"$phase\" }" >&"${NIX_LOG_FD:-2}"
  if [ -n "${!phase:-}" ]; then eval "${!phase}"; else "$phase"; fi
}

substituteInPlace() {
  local files=() file
  while [ $# -gt 0 ] && [[ $1 != --* ]]; do files+=("$1"); shift; done
  while [ $# -gt 0 ]; do
    local kind=$1 old=$2 new=$3
    shift 3
    for file in "${files[@]}"; do
      local text; text=$(cat "$file"; echo x); text=${text%x}
      if [[ $text != *"$old"* ]]; then
        echo "substituteInPlace: pattern $old does not match anything in file '$file'" >&2
        if [ "$kind" = --replace-fail ]; then return 1; else continue; fi
      fi
      printf %s "${text//"$old"/"$new"}" > "$file"
    done
  done
}

# Where Python finds some packages and everything they propagate.
pythonPath() {
  local path= todo="$*" seen= one
  while [ -n "$todo" ]; do
    set -- $todo; one=$1; shift; todo=$*
    case " $seen " in *" $one "*) continue ;; esac
    seen="$seen $one"
    if [ -d "$one/$sitePackages" ]; then path="$path${path:+:}$one/$sitePackages"; fi
    if [ -f "$one/nix-support/propagated-build-inputs" ]; then
      read -r one < "$one/nix-support/propagated-build-inputs"
      todo="$todo $one"
    fi
  done
  echo "$path"
}

printWords() { if [ $# -gt 0 ]; then printf '%s ' "$@"; fi; }

unpackPhase() {
  runHook preUnpack
  if [ -n "${src:-}" ]; then
    if [ -d "$src" ]; then cp -r --no-preserve=mode "$src" source; else mkdir source && cp "$src" source/; fi
    cd source
  fi
  runHook postUnpack
}

patchPhase() {
  runHook prePatch
  local patch
  for patch in ${patches:-}; do
    echo "applying patch $patch"
    patch -p1 < "$patch"
  done
  runHook postPatch
}

configurePhase() { runHook preConfigure; wrapCompiler; runHook postConfigure; }

# As nixpkgs' compiler wrapper does, every call gets what the variable says at that moment.
wrapCompiler() {
  if [ -z "${NIX_CFLAGS_COMPILE:-}" ] || ! command -v "$CC" > /dev/null; then return; fi
  mkdir -p "$NIX_BUILD_TOP/wrapped"
  printf '#!%s\nexec %s "$@" $NIX_CFLAGS_COMPILE\n' "$(command -v bash)" "$(command -v "$CC")" > "$NIX_BUILD_TOP/wrapped/gcc"
  chmod +x "$NIX_BUILD_TOP/wrapped/gcc"
  export CC=$NIX_BUILD_TOP/wrapped/gcc
}

buildPhase() { runHook preBuild; runHook postBuild; }

# Where a package names what it propagates, if it does.
supportFolder() {
  support=
  if [ -n "${propagatedBuildInputs:-}" ] || [ -n "${dev:-}" ]; then support=${dev:-$out}/nix-support; fi
}

# Those that are not there yet, by one program: hundreds of packages are built that hold nothing.
makeOutputs() {
  local output missing=() support
  supportFolder
  for output in $outputs; do if [ ! -e "${!output}" ]; then missing+=("${!output}"); fi; done
  if [ -n "$support" ] && [ ! -e "$support" ]; then missing+=("$support"); fi
  if [ ${#missing[@]} -gt 0 ]; then mkdir -p "${missing[@]}"; fi
}

installPhase() {
  runHook preInstall
  makeOutputs
  runHook postInstall
}

fixupPhase() {
  runHook preFixup
  makeOutputs
  local support
  supportFolder
  if [ -n "$support" ]; then
    # The dev output stands for the whole package: it leads to `out`.
    echo "${propagatedBuildInputs:-} ${dev:+$out}" >> "$support/propagated-build-inputs"
  fi
  runHook postFixup
}

installCheckPhase() { runHook preInstallCheck; runHook postInstallCheck; }

genericBuild() {
  local phase
  for phase in unpackPhase patchPhase configurePhase buildPhase installPhase fixupPhase installCheckPhase; do
    runPhase "$phase"
  done
}
