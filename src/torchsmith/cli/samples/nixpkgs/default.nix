# A miniature nixpkgs: the attributes that recipes touch, with nixpkgs' override machinery. See README.md.
{
  system ? builtins.currentSystem,
  localSystem ? system, # the same under its newer name
  config ? { },
  overlays ? [ ],
  # Which nixpkgs revision to look like; the folders beside this file choose another one.
  release ? "6a030d5",
  ...
}:

let
  lib = import ./lib;

  settings = {
    allowAliases = true;
    allowBroken = false;
    allowUnfree = false;
    allowUnsupportedSystem = false;
    cudaSupport = false;
    rocmSupport = false;
  } // (if builtins.isFunction config then config { } else config);

  packages = import ./pkgs {
    inherit lib;
    system = localSystem;
    config = settings;
    release = (import ./releases.nix).${release};
  };
in
lib.fix (lib.extends (lib.composeManyExtensions overlays) packages)
