# torchsmith: format=1 file=default.nix content=sha256:5e49cae313cf3d666ad530f2e4d2b0fd454b5aa50ea25f5e6ccead6c394100e6
# Every recipe of this repository: nix-build -A NAME. Recipes are read when they are asked for.
{ torchsmithNixpkgs ? null }:

let
  given = if torchsmithNixpkgs == null then { } else { inherit torchsmithNixpkgs; };
  # A recipe by hand may be no function, or one without this argument.
  load = file:
    let loaded = import file;
    in if builtins.isFunction loaded
    then loaded (builtins.intersectAttrs (builtins.functionArgs loaded) given)
    else loaded;
  recipe = name: load (./.flox/pkgs + "/${name}.nix");

  # These recipes take their inputs from a package set, as Flox calls them.
  packages = system: import (if torchsmithNixpkgs == null then <nixpkgs> else torchsmithNixpkgs) {
    inherit system;
    config.allowUnfree = true;
  };
  call = system: name: (packages system).callPackage (./.flox/pkgs + "/${name}.nix") { };
  recipes = {
    "pytorch-python311-cpu-avx2" = call "x86_64-linux" "pytorch-python311-cpu-avx2";
    "pytorch-python312-cuda12_8-sm86-avx2" = call "x86_64-linux" "pytorch-python312-cuda12_8-sm86-avx2";
    "pytorch-python313-cuda12_8-sm120-avx512" = call "x86_64-linux" "pytorch-python313-cuda12_8-sm120-avx512";
  };
in
recipes
