# PyTorch optimized for NVIDIA Blackwell (RTX 5090) + AVX
# Package name: pytorch-python313-cuda13_0-sm120-avx

{ lib }:

let
  # nixpkgs pinned for CUDA
  nixpkgs_pinned = import (builtins.fetchTarball {
    url = "https://github.com/NixOS/nixpkgs/archive/fe5e41d7ffc0421f0913e8472ce6238ed0daf8e3.tar.gz";
  }) {
    config = {
      allowUnfree = true;
      cudaSupport = true;
    };
  };

  # GPU target: SM120 (RTX 5090)
  gpuArchNum = "120";
  gpuArchSM = "12.0";

  # CPU optimization: AVX
  cpuFlags = [
    "-mavx"
    "-mfma"
    "-mf16c"
  ];

in
  (nixpkgs_pinned.python3Packages.pytorch.override {
    cudaSupport = true;
    gpuTargets = [ gpuArchSM ];
  }).overrideAttrs (oldAttrs: {
    pname = "pytorch-python313-cuda13_0-sm120-avx";

    preConfigure = (oldAttrs.preConfigure or "") + ''
      export CXXFLAGS="$CXXFLAGS ${lib.concatStringsSep " " cpuFlags}"
      export CFLAGS="$CFLAGS ${lib.concatStringsSep " " cpuFlags}"
      export MAX_JOBS=32

      echo "GPU Target: ${gpuArchSM}"
      echo "CPU Features: AVX"
    '';

    meta = oldAttrs.meta // {
      description = "PyTorch for NVIDIA Blackwell (RTX 5090) with AVX";
      platforms = [ "x86_64-linux" ];
    };
  })
