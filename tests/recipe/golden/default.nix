# torchsmith: format=1 file=default.nix content=sha256:252ace470405f7b25be0b74839e3b3fbf46526a8db92387105ee9ccf8da6cfb0
# Every recipe of this repository: nix-build -A NAME. Recipes are read when they are asked for.
{ torchsmithNixpkgs ? null }:

let
  given = if torchsmithNixpkgs == null then { } else { inherit torchsmithNixpkgs; };
  recipe = name: import (./.flox/pkgs + "/${name}.nix") given;

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
