# PyTorch optimized for NVIDIA DRIVE Thor + ARMv9
# Package name: pytorch-python313-cuda13_0-sm110-armv9

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

  # GPU target: SM110 (DRIVE Thor)
  gpuArchNum = "110";
  gpuArchSM = "11.0";

  # CPU optimization: ARMv9
  cpuFlags = [
    "-march=armv9-a+sve2"
  ];

in
  (nixpkgs_pinned.python3Packages.pytorch.override {
    cudaSupport = true;
    gpuTargets = [ gpuArchSM ];
  }).overrideAttrs (oldAttrs: {
    pname = "pytorch-python313-cuda13_0-sm110-armv9";

    preConfigure = (oldAttrs.preConfigure or "") + ''
      export CXXFLAGS="$CXXFLAGS ${lib.concatStringsSep " " cpuFlags}"
      export CFLAGS="$CFLAGS ${lib.concatStringsSep " " cpuFlags}"
      export MAX_JOBS=32

      echo "GPU Target: ${gpuArchSM}"
      echo "CPU Features: ARMv9"
    '';

    meta = oldAttrs.meta // {
      description = "PyTorch for NVIDIA DRIVE Thor with ARMv9";
      platforms = [ "aarch64-linux" ];
    };
  })
