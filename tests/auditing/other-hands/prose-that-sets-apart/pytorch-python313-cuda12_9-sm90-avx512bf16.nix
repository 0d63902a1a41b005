# PyTorch for the H100 (SM90)
# FBGEMM requires AVX2; prevent ATen from compiling AVX2/AVX512 dispatch kernels.
# Not for CPUs without
# AVX-512.
{ pkgs ? import <nixpkgs> {} }:

let
  pinned = import (builtins.fetchTarball {
    url = "https://github.com/NixOS/nixpkgs/archive/6a030d535719c5190187c4cec156f335e95e3211.tar.gz";
  }) {
    config = { allowUnfree = true; cudaSupport = true; };
    overlays = [ (final: prev: { cudaPackages = final.cudaPackages_12_9; }) ];
  };

  gpuArchSM = "9.0";
  cpuFlags = [ 
    "-mavx512f" # AVX-512 Foundation
    "-mavx512dq" "-mavx512vl" "-mavx512bw" "-mavx512bf16" # BF16
    "-mfma"
   ];

in
  (pinned.python3Packages.torch.override {
    cudaSupport = true;
    gpuTargets = [ gpuArchSM ];
  }).overrideAttrs (oldAttrs: {
    pname = "pytorch-python313-cuda12_9-sm90-avx512bf16";
    preConfigure = (oldAttrs.preConfigure or "") + ''
      export CXXFLAGS="${pinned.lib.concatStringsSep " " cpuFlags} $CXXFLAGS"
      export CFLAGS="${pinned.lib.concatStringsSep " " cpuFlags} $CFLAGS"
    '';
    meta = oldAttrs.meta // {
      description = "PyTorch for NVIDIA H100 (SM90) with AVX-512 + BF16";
      longDescription = ''
        - GPU: NVIDIA Hopper (SM90) - H100, H200
        - CPU: x86-64 with AVX-512 + BF16, not an NVIDIA Grace Hopper

        Choose this if: you have an H100. For an RTX 5090, use
        sm120 builds instead. CPUs that lack AVX-512, FMA or BMI2 need the avx2 variants.
        Twice as fast as AVX2, and faster than any A100. The float8 types
        were added in PyTorch 2.7. Newer GPUs (RTX 4090, RTX 5090) are not for it.
        For smaller CPUs consider avx2 (general) or avx512vnni (INT8 inference).
      '';
      platforms = [ "x86_64-linux" ];
    };
  })
