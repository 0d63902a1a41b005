#? if arguments
(@base@.override {
  #? if torchArgument
  torch = customPytorch;
  #? end
  #? each gpuArguments
  @gpuName@ = [ "@gpuTarget@@gpuTail@" ];
  #? end
  #? fix opencv-cuda13
  ffmpeg_6-full = ffmpegForCuda13;
  #? end
}).overrideAttrs (oldAttrs: {
#? else
@base@.overrideAttrs (oldAttrs: {
#? end
  pname = "@stem@-@cell@";
  #? if ownSource
  #? if sameVersion
  version = customPytorch.version; # the two are released together
  #? else
  version = "@version@";
  #? end
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

  # The dev output alone would be propagated otherwise, and `import torch` would fail.
  propagatedBuildInputs = (oldAttrs.propagatedBuildInputs or [ ]) ++ [ customPytorch.out ];

  preConfigure = (oldAttrs.preConfigure or "")
    #? each gpuVariables
    + ''
      export @gpuName@="@gpuTarget@@gpuTail@"
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
    # torch's extension builder reads the first variable, CMake the second.
    + ''
      if [ "$NIX_BUILD_CORES" -gt ${toString maxJobs} ]; then
        export NIX_BUILD_CORES=${toString maxJobs}
      fi
      export MAX_JOBS=$NIX_BUILD_CORES CMAKE_BUILD_PARALLEL_LEVEL=$NIX_BUILD_CORES
    '';

  passthru = oldAttrs.passthru // {
    torch = customPytorch;
    # Computed before propagatedBuildInputs was extended; interpreters are composed from it.
    requiredPythonModules = oldAttrs.passthru.requiredPythonModules ++ [ customPytorch.out ];
    torchsmith = {
      variant = "@stem@-@cell@";
      line = "@line@";
    };
  };
  #? unless brought

  meta = oldAttrs.meta // {
    #? if cuda
    description = "@what@ for PyTorch @torch@ with CUDA @cuda@, @gpuTitle@ and @isaTitle@ CPUs";
    #? else
    description = "@what@ for PyTorch @torch@ without CUDA, @isaTitle@ CPUs";
    #? end
    longDescription = ''
      #? if lineVersion
      @what@, the release that belongs to PyTorch @torch@, with that PyTorch as its dependency:
      #? else
      @what@ of this nixpkgs, with PyTorch @torch@ as its dependency:
      #? end
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
  #? end
})@end@
