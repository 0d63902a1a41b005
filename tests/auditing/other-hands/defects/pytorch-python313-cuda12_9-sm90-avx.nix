# PyTorch for the H100
{ pkgs ? import <nixpkgs> {} }:

let
  pinned = import (builtins.fetchTarball {
    url = "https://github.com/NixOS/nixpkgs/archive/6a030d535719c5190187c4cec156f335e95e3211.tar.gz";
  }) {
    config = { allowUnfree = true; cudaSupport = true; };
    
  };

  gpuArchSM = "sm_90";
  cpuFlags = [ "-mavx" "-mfma" ];

in
  (pinned.python3Packages.torch.override {
    cudaSupport = true;
    cudnnSupport = false;
    gpuTargets = [ gpuArchSM ];
  }).overrideAttrs (oldAttrs: {
    pname = "pytorch-python313-cuda12_9-sm90-avx";
    preConfigure = (oldAttrs.preConfigure or "") + ''
      export CXXFLAGS="${pinned.lib.concatStringsSep " " cpuFlags} $CXXFLAGS"
      export CFLAGS="${pinned.lib.concatStringsSep " " cpuFlags} $CFLAGS"
    '';
    meta = oldAttrs.meta // {
      description = "PyTorch for the H100 with AVX";
      platforms = [ "x86_64-linux" ];
    };
  })
