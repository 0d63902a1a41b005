# The package set before overlays, as a function of its own final form.
{ lib, system, config, release }:

final:

let
  stdenv = import ./stdenv.nix { inherit lib config system; };
  callPackage = final.callPackage;
  cuda = import ./cuda.nix { inherit lib; };
in
{
  inherit config lib stdenv system;
  pkgs = final;
  targetPackages = final;
  callPackage = lib.callPackageWith final;
  stdenvNoCC = final.stdenv;
  inherit (stdenv) hostPlatform;
  recurseIntoAttrs = lib.recurseIntoAttrs;

  inherit (import ./fetch.nix { inherit lib; inherit (final) stdenv; })
    fetchFromGitHub fetchpatch fetchpatch2 fetchurl fetchzip source
    ;
}
// import ./libraries.nix { inherit lib; } final
// cuda.sets release final
// import ./python.nix { inherit lib release config; } final
