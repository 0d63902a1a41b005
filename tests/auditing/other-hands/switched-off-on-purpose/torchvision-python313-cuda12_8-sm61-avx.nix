# torchvision for Pascal (SM61: GTX 1080) + AVX, with the torch of the recipe beside it
{ pkgs ? import <nixpkgs> {} }:
let
  pinned = import (builtins.fetchTarball {
    url = "https://github.com/NixOS/nixpkgs/archive/6a030d535719c5190187c4cec156f335e95e3211.tar.gz";
  }) {
    config = { allowUnfree = true; cudaSupport = true; };
    overlays = [ (final: prev: { cudaPackages = final.cudaPackages_12_8; }) ];
  };
  customPytorch = import ./pytorch-python313-cuda12_8-sm61-avx.nix {};
  cpuFlags = [ "-mavx" "-mno-fma" "-mno-bmi" "-mno-bmi2" "-mno-avx2" ];
in
  (pinned.python3Packages.torchvision.override { torch = customPytorch; }).overrideAttrs (oldAttrs: {
    pname = "torchvision-python313-cuda12_8-sm61-avx";
    propagatedBuildInputs = (oldAttrs.propagatedBuildInputs or []) ++ [ customPytorch.out ];
    preConfigure = (oldAttrs.preConfigure or "") + ''
      export CXXFLAGS="${pinned.lib.concatStringsSep " " cpuFlags} $CXXFLAGS"
      export CFLAGS="${pinned.lib.concatStringsSep " " cpuFlags} $CFLAGS"
      export TORCH_CUDA_ARCH_LIST="6.1"
    '';
    meta = oldAttrs.meta // {
      description = "torchvision for GTX 1080 (SM61) with AVX";
      platforms = [ "x86_64-linux" ];
    };
  })
