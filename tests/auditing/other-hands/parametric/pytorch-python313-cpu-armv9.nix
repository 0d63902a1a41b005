{ pkgs ? import <nixpkgs> {} }:
import ./lib/mk.nix { sm = null; isa = "armv9"; }
