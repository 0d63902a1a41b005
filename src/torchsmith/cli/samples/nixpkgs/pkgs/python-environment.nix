# An interpreter that sees some Python packages and everything they propagate.
{ lib, stdenv, python, modules }:

stdenv.mkDerivation {
  name = "${python.name}-env";
  inherit modules;
  interpreter = python.interpreter;
  sitePackages = python.sitePackages;
  installPhase = ''
    mkdir -p $out/bin
    printf '#!/bin/bash\nexport PYTHONPATH=%s\nexec %s "$@"\n' "$(pythonPath $modules)" "$interpreter" > $out/bin/python
    chmod +x $out/bin/python
    ln -s python $out/bin/python3
  '';
}
