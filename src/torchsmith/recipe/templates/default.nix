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
  #? if called

  # These recipes take their inputs from a package set, as Flox calls them.
  packages = system: import (if torchsmithNixpkgs == null then <nixpkgs> else torchsmithNixpkgs) {
    inherit system;
    config.allowUnfree = true;
  };
  call = system: name: (packages system).callPackage (./.flox/pkgs + "/${name}.nix") { };
  #? end
  recipes = {
    #? each pinned
    "@item@" = recipe "@item@";
    #? end
    #? each calledOnX86
    "@item@" = call "x86_64-linux" "@item@";
    #? end
    #? each calledOnArm
    "@item@" = call "aarch64-linux" "@item@";
    #? end
  };
  #? if cells

  # A cell's packages: this repository's, and those of the repositories beside it that are there.
  cells = [
    #? each cells
    "@item@"
    #? end
  ];
  files = cell: [
    #? each files
    @item@
    #? end
  ];
  modules = cell: map load (builtins.filter builtins.pathExists (files cell));
  python = cell: (builtins.head (modules cell)).pythonModule;
  environment = cell: (python cell).withPackages (_: modules cell);
  tools = cell: (python cell).pkgs.callPackage;
  each = make: builtins.listToAttrs (map (cell: { name = cell; value = make cell; }) cells);
  #? end
in
#? if cells
recipes // {
  # A Python that has every package of a cell: nix-build -A environments.CELL
  environments = each environment;

  # The same to work in: nix-shell -A shells.CELL
  shells = each (cell: tools cell ({ mkShell }: mkShell { packages = [ (environment cell) ]; }) { });

  # The same as an OCI image: $(nix-build -A images.CELL) | docker load
  images = each (cell: tools cell ({ dockerTools }: dockerTools.streamLayeredImage {
    name = "@package@";
    tag = cell;
    config = {
      Cmd = [ "${environment cell}/bin/python3" ];
      # Where a container runtime puts the driver's libcuda, and what it is asked for.
      Env = [
        "LD_LIBRARY_PATH=/usr/lib64:/usr/lib/x86_64-linux-gnu:/usr/lib/aarch64-linux-gnu"
        "NVIDIA_VISIBLE_DEVICES=all"
        "NVIDIA_DRIVER_CAPABILITIES=compute,utility"
      ];
    };
  }) { });

  # For other Nix code: import nixpkgs { overlays = [ (import ./. { }).overlay ]; }
  overlay = final: prev: recipes;
}
#? else
recipes
#? end
