# Every recipe of this repository: nix-build -A NAME. Recipes are read when they are asked for.
{ torchsmithNixpkgs ? null }:

let
  given = if torchsmithNixpkgs == null then { } else { inherit torchsmithNixpkgs; };
  recipe = name: import (./.flox/pkgs + "/${name}.nix") given;
  #? if called

  # These recipes take their inputs from a package set, as Flox calls them.
  packages = system: import (if torchsmithNixpkgs == null then <nixpkgs> else torchsmithNixpkgs) {
    inherit system;
    config.allowUnfree = true;
  };
  call = system: name: (packages system).callPackage (./.flox/pkgs + "/${name}.nix") { };
  #? end
in
{
  #? each pinned
  "@item@" = recipe "@item@";
  #? end
  #? each calledOnX86
  "@item@" = call "x86_64-linux" "@item@";
  #? end
  #? each calledOnArm
  "@item@" = call "aarch64-linux" "@item@";
  #? end
}
