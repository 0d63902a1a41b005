{ pkgs ? import <nixpkgs> {} }:
import ./lib/mk.nix { sm = "70"; isa = "avx2"; cuda = "13_0"; }
