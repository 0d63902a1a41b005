# PyTorch for Pascal (SM61: GTX 1080) + AVX; Ivy Bridge lacks FMA3, BMI1, BMI2, AVX2
{ pkgs ? import <nixpkgs> {} }:

let
  pinned = import (builtins.fetchTarball {
    url = "https://github.com/NixOS/nixpkgs/archive/6a030d535719c5190187c4cec156f335e95e3211.tar.gz";
  }) {
    config = { allowUnfree = true; cudaSupport = true; };
    overlays = [ (final: prev: { cudaPackages = final.cudaPackages_12_8; }) ];
  };

  gpuArchSM = "6.1";
  cpuFlags = [ "-mavx" "-mno-fma" "-mno-bmi" "-mno-bmi2" "-mno-avx2" ];

in
  (pinned.python3Packages.torch.override {
    cudaSupport = true;
    gpuTargets = [ gpuArchSM ];
  }).overrideAttrs (oldAttrs: {
    pname = "pytorch-python313-cuda12_8-sm61-avx";
    preConfigure = (oldAttrs.preConfigure or "") + ''
      export CXXFLAGS="${pinned.lib.concatStringsSep " " cpuFlags} $CXXFLAGS"
      export CFLAGS="${pinned.lib.concatStringsSep " " cpuFlags} $CFLAGS"
      # cuDNN has dropped SM61
      export USE_CUDNN=0
      export USE_FBGEMM=0
      export USE_MKLDNN=0
      export USE_NNPACK=0
    '';
    meta = oldAttrs.meta // {
      description = "PyTorch for GTX 1080 (SM61) with AVX";
      platforms = [ "x86_64-linux" ];
    };
  })
