# nix-build, or nix-build --arg pkgs 'import /your/nixpkgs { }'
{
  pkgs ? import <nixpkgs> { },
}:
pkgs.callPackage ./package.nix { }
