# torch for the machines that serve vLLM
{ pkgs ? import <nixpkgs> { } }:
let
  pinned = import (builtins.fetchTarball {
    url = "https://github.com/NixOS/nixpkgs/archive/6a030d535719c5190187c4cec156f335e95e3211.tar.gz";
  }) {
    config = { allowUnfree = true; cudaSupport = true; };
    overlays = [ (final: prev: { cudaPackages = final.cudaPackages_12_9; }) ];
  };
  cpuFlags = [ "-mavx512f" "-mavx512dq" "-mavx512vl" "-mavx512bw" "-mfma" ];
in
(pinned.python3Packages.torch.override {
  cudaSupport = true;
  gpuTargets = [ "9.0" ];
}).overrideAttrs (old: {
  pname = "torch-for-serving";
  preConfigure = (old.preConfigure or "") + ''
    export CXXFLAGS="${toString cpuFlags} $CXXFLAGS"
    export CFLAGS="${toString cpuFlags} $CFLAGS"
  '';
  meta = old.meta // {
    description = "PyTorch for H100 (SM90) with AVX-512";
    longDescription = ''
      PyTorch for NVIDIA H100 (SM90).
      Goes with vLLM: the same pin as our vLLM 0.11.0 recipes; torchvision lies beside it.
    '';
    platforms = [ "x86_64-linux" ];
  };
})
