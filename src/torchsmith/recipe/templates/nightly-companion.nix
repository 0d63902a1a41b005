# @label@ from its development branch for the PyTorch nightly, Python @python@: @gpuTitle@ and @isaTitle@ CPUs.
# Build it with: flox build --stability=@stability@ @stem@-@cell@

{ callPackage
, fetchFromGitHub
, @pythonPackages@
}:

let
  # Source of this build; all three come from the workspace file.
  nightlyRev = "@companion.rev@";
  nightlyHash = "@companion.hash@";
  nightlyVersion = "@companion.version@";

  cpuFlags = @cpuFlags@;

  customPytorch = callPackage (
# ---- torch: the PyTorch recipe of this cell, byte for byte, so that both share one torch build ----
#? include nightly-torch.nix
# ---- end of torch ----
  ) { };
in

(@pythonPackages@.@attr@.override { torch = customPytorch; }).overrideAttrs (oldAttrs: {
  pname = "@stem@-@cell@";
  version = nightlyVersion;
  src = fetchFromGitHub {
    owner = "@sourceOwner@";
    repo = "@sourceRepo@";
    rev = nightlyRev;
    hash = nightlyHash;
  };

  preConfigure = (oldAttrs.preConfigure or "") + ''
    export BUILD_VERSION=${nightlyVersion}
    export CFLAGS="${toString cpuFlags} @cxxMark@ ''${CFLAGS:-}"
    export CXXFLAGS="${toString cpuFlags} @cxxMark@ ''${CXXFLAGS:-}"
    # nvcc hands its host compiler none of these by itself.
    export NVCC_APPEND_FLAGS="''${NVCC_APPEND_FLAGS:-} -Xcompiler=${builtins.concatStringsSep "," cpuFlags},@hostMark@@nvccFlags@"
    export NIX_CFLAGS_COMPILE="''${NIX_CFLAGS_COMPILE:-} @recordFlag@"
    if [ "$NIX_BUILD_CORES" -gt @maxJobs@ ]; then
      export NIX_BUILD_CORES=@maxJobs@
    fi
    export MAX_JOBS=$NIX_BUILD_CORES
  '';

  passthru = oldAttrs.passthru // {
    torch = customPytorch;
    torchsmith = {
      variant = "@stem@-@cell@";
      line = "@line@";
    };
  };

  meta = oldAttrs.meta // {
    description = "@label@ development build for the PyTorch nightly, @gpuTitle@ and @isaTitle@ CPUs";
    platforms = [ "@system@" ];
  };
})
