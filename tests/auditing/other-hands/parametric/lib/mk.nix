# One builder for all cells.
{ sm, isa, cuda ? null }:
let
  cpus = import ./cpus.nix;
  gpus = import ./gpus.nix;
  onGpu = cuda != null;
  pkgs = import (builtins.fetchTarball {
    url = "https://github.com/NixOS/nixpkgs/archive/6a030d535719c5190187c4cec156f335e95e3211.tar.gz";
  }) ({
    config = { allowUnfree = true; } // (if onGpu then { cudaSupport = true; } else { });
  } // (if onGpu then {
    overlays = [ (final: prev: { cudaPackages = final."cudaPackages_${cuda}"; }) ];
  } else { }));
  flags = pkgs.lib.concatStringsSep " " cpus.${isa}.flags;
in
  if onGpu then
    (pkgs.python3Packages.torch.override {
      cudaSupport = true;
      gpuTargets = [ gpus.${sm} ];
    }).overrideAttrs (old: {
      pname = "pytorch-python313-cuda${cuda}-sm${sm}-${isa}";
      preConfigure = (old.preConfigure or "") + ''
        export CXXFLAGS="${flags} $CXXFLAGS"
        export CFLAGS="${flags} $CFLAGS"
      '' + pkgs.lib.optionalString (isa == "avx") ''
        export USE_FBGEMM=0
      '';
      meta = old.meta // { platforms = [ cpus.${isa}.platform ]; };
    })
  else
    pkgs.python3Packages.torch.overrideAttrs (old: {
      pname = "pytorch-python313-cpu-${isa}";
      preConfigure = (old.preConfigure or "") + ''
        export USE_CUDA=0
        export CXXFLAGS="${flags} $CXXFLAGS"
        export CFLAGS="${flags} $CFLAGS"
      '';
      meta = old.meta // { platforms = [ cpus.${isa}.platform ]; };
    })
