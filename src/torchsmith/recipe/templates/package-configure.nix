preConfigure = (oldAttrs.preConfigure or "")
  #? each gpuVariables
  + ''
    export @gpuName@="@gpuTarget@@gpuTail@"
  ''
  #? end
  #? if ownFlags
  #? if recordFlag
  + ''
    export CFLAGS="${toString cpuFlags} @cxxMark@ ''${CFLAGS:-}"
    export CXXFLAGS="${toString cpuFlags} @cxxMark@ ''${CXXFLAGS:-}"
  ''
  #? include record-flags.nix
  #? else
  + ''
    export CFLAGS="${toString cpuFlags} ''${CFLAGS:-}"
    export CXXFLAGS="${toString cpuFlags} ''${CXXFLAGS:-}"
  ''
  #? end
  #? if hostMark
  # nvcc hands its host compiler none of these by itself.
  + ''
    export NVCC_APPEND_FLAGS="''${NVCC_APPEND_FLAGS:-} -Xcompiler=${pkgs.lib.concatStringsSep "," cpuFlags},@hostMark@@nvccFlags@"
  ''
  #? end
  #? end
  #? if needsTorch
  # torch's extension builder reads the first variable, CMake the second.
  #? end
  + ''
    if [ "$NIX_BUILD_CORES" -gt ${toString maxJobs} ]; then
      export NIX_BUILD_CORES=${toString maxJobs}
    fi
    export MAX_JOBS=$NIX_BUILD_CORES CMAKE_BUILD_PARALLEL_LEVEL=$NIX_BUILD_CORES
  '';
