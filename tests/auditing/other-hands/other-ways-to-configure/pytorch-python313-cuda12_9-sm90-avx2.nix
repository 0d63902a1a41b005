# The package set is told the GPU; configuration and overlays are put together.
{ lib ? null, system ? "x86_64-linux" }:
let
  source = builtins.fetchTarball {
    url = "https://github.com/NixOS/nixpkgs/archive/6a030d535719c5190187c4cec156f335e95e3211.tar.gz";
  };
  ofCuda = final: prev: { cudaPackages = final.cudaPackages_12_9; };
  pkgs = import source {
    inherit system;
    config.allowUnfree = true;
    config.cudaSupport = true;
    config.cudaCapabilities = [ "9.0" ];
    overlays = [ ofCuda ] ++ [ ];
  };
  base = pkgs.python3Packages.torch;
in
  base.overrideAttrs (old: {
    pname = "torch-hopper-avx2";
    env = (old.env or { }) // { NIX_CFLAGS_COMPILE = toString [ "-mavx2" "-mfma" "-mf16c" ]; };
    meta = old.meta // { platforms = [ "x86_64-linux" ]; };
  })
