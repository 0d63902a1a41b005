{ pkgs ? import <nixpkgs> {} }:
import ./lib/mk.nix { sm = "89"; isa = "avx2"; cuda = "12_9"; }
