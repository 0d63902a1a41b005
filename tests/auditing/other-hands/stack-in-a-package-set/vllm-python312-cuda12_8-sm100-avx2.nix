# vLLM for one kind of machine: the whole package set sees the torch that is built for it.
# Blackwell (SM100: B200) needs a driver of the 570 branch, such as 570+.
{ ... }:

let
  pkgs = import (builtins.fetchTarball {
    url = "https://github.com/NixOS/nixpkgs/archive/6a030d535719c5190187c4cec156f335e95e3211.tar.gz";
  }) {
    system = "x86_64-linux";
    config.allowUnfree = true;
    config.cudaSupport = true;
    config.cudaCapabilities = [ "10.0" ];
    overlays = [ (final: prev: { cudaPackages = final.cudaPackages_12_8; }) ];
  };

  flags = [ "-mavx2" "-mfma" "-mf16c" ];

  python = pkgs.python312.override {
    packageOverrides = self: super: {
      torch = (super.torch.override { gpuTargets = [ "10.0" ]; }).overrideAttrs (old: {
        pname = "pytorch29-python312-cuda12_8-sm100-avx2";
        preConfigure = (old.preConfigure or "") + ''
          export CFLAGS="${toString flags} ''${CFLAGS:-}"
          export CXXFLAGS="${toString flags} ''${CXXFLAGS:-}"
        '';
      });
    };
  };
in
python.pkgs.vllm.overrideAttrs (old: {
  pname = "vllm-python312-cuda12_8-sm100-avx2";
  meta = old.meta // {
    description = "vLLM for the B200 (SM100), CUDA 12.8";
    platforms = [ "x86_64-linux" ];
  };
})
