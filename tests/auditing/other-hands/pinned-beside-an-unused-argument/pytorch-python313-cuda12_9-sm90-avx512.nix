# PyTorch for the H100 (SM90), AVX-512
{ pkgs ? import <nixpkgs> {} }:

let
  pinned = import (builtins.fetchTarball {
    url = "https://github.com/NixOS/nixpkgs/archive/6a030d535719c5190187c4cec156f335e95e3211.tar.gz";
  }) {
    config = { allowUnfree = true; cudaSupport = true; };
    overlays = [ (final: prev: { cudaPackages = final.cudaPackages_12_9; }) ];
  };

  gpuArchSM = "9.0";
  cpuFlags = [ "-mavx512f" "-mavx512dq" "-mavx512vl" "-mavx512bw" "-mfma" ];

in
  (pinned.python3Packages.torch.override {
    cudaSupport = true;
    gpuTargets = [ gpuArchSM ];
  }).overrideAttrs (oldAttrs: {
    pname = "pytorch-python313-cuda12_9-sm90-avx512";
    preConfigure = (oldAttrs.preConfigure or "") + ''
      export CXXFLAGS="${pinned.lib.concatStringsSep " " cpuFlags} $CXXFLAGS"
      export CFLAGS="${pinned.lib.concatStringsSep " " cpuFlags} $CFLAGS"
    '';
    meta = oldAttrs.meta // {
      description = "PyTorch for NVIDIA H100 (SM90, Hopper) with AVX-512";
      platforms = [ "x86_64-linux" ];
    };
  })
