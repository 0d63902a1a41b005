#? if shared
# @what@, Python @python@: what the recipes of many cells have in common.
#? else
#? if cuda
# @what@, Python @python@: @gpuTitle@ and @isaTitle@ CPUs, CUDA @cuda@.
#? else
# @what@, Python @python@: @isaTitle@ CPUs, no GPU.
#? end
#? end

#? include nixpkgs.nix

let
  #? include cells.nix
  #? include pkgs.nix
in

#? if cuda
# A package set whose CUDA is another one must not pass for @cuda@.
assert pkgs.cudaPackages.cudaMajorMinorVersion == "@cuda@";

#? end
#? if gpuArgument
(pkgs.@pythonPackages@.@attr@.override {
  @gpuArgument@ = [ "@gpuTarget@" ];
}).overrideAttrs (oldAttrs: {
#? else
pkgs.@pythonPackages@.@attr@.overrideAttrs (oldAttrs: {
#? end
  pname = "@stem@-@cell@";
  #? if ownSource
  version = "@version@";
  src = pkgs.fetchFromGitHub {
    owner = "@sourceOwner@";
    repo = "@sourceRepo@";
    rev = "@sourceTag@";
    hash = "@sourceHash@";
    #? if submodules
    fetchSubmodules = true;
    #? end
  };
  #? end
  #? include gpu-flag.nix

  preConfigure = (oldAttrs.preConfigure or "")
    #? if gpuVariable
    + ''
      export @gpuVariable@="@gpuTarget@"
    ''
    #? end
    #? if ownFlags
    + ''
      export CFLAGS="${toString cpuFlags} ''${CFLAGS:-}"
      export CXXFLAGS="${toString cpuFlags} ''${CXXFLAGS:-}"
    ''
    #? if cuda
    # nvcc hands its host compiler none of these by itself.
    + ''
      export NVCC_APPEND_FLAGS="''${NVCC_APPEND_FLAGS:-} -Xcompiler=${pkgs.lib.concatStringsSep "," cpuFlags}"
    ''
    #? end
    #? end
    + ''
      if [ "$NIX_BUILD_CORES" -gt ${toString maxJobs} ]; then
        export NIX_BUILD_CORES=${toString maxJobs}
      fi
      export MAX_JOBS=$NIX_BUILD_CORES CMAKE_BUILD_PARALLEL_LEVEL=$NIX_BUILD_CORES
    '';

  passthru = oldAttrs.passthru // {
    torchsmith = {
      variant = "@stem@-@cell@";
      line = "@line@";
    };
  };

  meta = oldAttrs.meta // {
    #? if cuda
    description = "@what@ with CUDA @cuda@ for @gpuTitle@ and @isaTitle@ CPUs";
    #? else
    description = "@what@ without CUDA for @isaTitle@ CPUs";
    #? end
    longDescription = ''
      @what@ compiled for one kind of machine:
      #? if cuda
      - GPU: @SM@, that is @gpuParts@; no other architecture and no PTX
      - Machines: @machines@
      - CUDA: @cuda@, which needs an NVIDIA driver of version @driver@ or newer
      #? else
      - GPU: none; nothing of CUDA is built or linked
      #? end
      - CPU: @cpuNeeds@; a lesser CPU stops with an illegal instruction
      - Python: @python@
    '';
    #? if ownSource
    changelog = "https://github.com/@sourceOwner@/@sourceRepo@/releases/tag/@sourceTag@";
    #? end
    platforms = [ "@system@" ];
  };
})
