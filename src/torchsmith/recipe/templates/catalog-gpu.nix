# PyTorch as the Flox catalog has it, Python @python@: @gpuTitle@ and @isaTitle@ CPUs, CUDA @cuda@.
# Package name: pytorch-@cell@

{ lib
, @pythonPackages@
, @cudaSet@
, magma
}:

let
  # The one architecture that kernels are compiled for, as CUDA writes capabilities.
  gpuArch = "@capability@";

  cpuFlags = @cpuFlags@;

  # More compilers at once than this run a large builder out of memory.
  maxJobs = @maxJobs@;

  # MAGMA and Triton follow this CUDA too: torch refuses a MAGMA of another one.
  torch = @pythonPackages@.torch.override {
    cudaSupport = true;
    cudaPackages = @cudaSet@;
    gpuTargets = [ gpuArch ];
    effectiveMagma = magma.override {
      cudaSupport = true;
      rocmSupport = false;
      static = true;
      cudaPackages = @cudaSet@;
    };
    _tritonEffective = @pythonPackages@.triton.override {
      cudaSupport = true;
      cudaPackages = @cudaSet@;
    };
  };
in

# A package set whose CUDA is another one must not pass for @cuda@.
assert @cudaSet@.cudaMajorMinorVersion == "@cuda@";

torch.overrideAttrs (oldAttrs: {
  pname = "pytorch-@cell@";

  # TORCH_CUDA_ARCH_LIST is already set, from gpuTargets.
  preConfigure = (oldAttrs.preConfigure or "")
    #? if torchOff
    # These libraries run newer instructions outside PyTorch's own dispatch. Exported, because nixpkgs' torch keeps
    # some of these variables among its attributes and some in `env`, and a variable must not be in both.
    + ''
      #? each torchOff
      export @item@=0
      #? end
    ''
    #? end
    # CMake takes its first C and C++ flags from here; the flags of dispatched kernels come after them.
    # @cxxMark@ changes no code: recorded in a library, it proves that these flags reached a unit.
    + ''
      export CFLAGS="${toString cpuFlags} @cxxMark@ ''${CFLAGS:-}"
      export CXXFLAGS="${toString cpuFlags} @cxxMark@ ''${CXXFLAGS:-}"
    ''
    #? include record-flags.nix
    #? include xnnpack.nix
    #? include avx2-kernels.nix
    # Marks the host half of a CUDA unit, which gets none of CXXFLAGS.
    + ''
      export NVCC_APPEND_FLAGS="''${NVCC_APPEND_FLAGS:-} -Xcompiler=@hostMark@@nvccFlags@"
    ''
    # preBuild sets MAX_JOBS from NIX_BUILD_CORES, so a limit holds only here.
    + ''
      if [ "$NIX_BUILD_CORES" -gt ${toString maxJobs} ]; then
        export NIX_BUILD_CORES=${toString maxJobs}
      fi
    ''
    # For a log read by itself. Each value reaches the build above too, so that no two derivations differ by this alone.
    + ''
      echo "========================================="
      echo "PyTorch Build Configuration"
      echo "========================================="
      echo "GPU Target: ${gpuArch} (TORCH_CUDA_ARCH_LIST=$TORCH_CUDA_ARCH_LIST)"
      echo "CPU Flags: ${toString cpuFlags}"
      echo "CUDA: ${@cudaSet@.cudaMajorMinorVersion}"
      echo "MAGMA: Enabled"
      echo "========================================="
    '';

  passthru = oldAttrs.passthru // {
    inherit gpuArch;
    # torchvision and torchaudio take their architecture list from here.
    cudaCapabilities = [ gpuArch ];
    torchsmith = {
      variant = "pytorch-@cell@";
      line = "@line@";
    };
  };

  meta = oldAttrs.meta // {
    description = "PyTorch with CUDA @cuda@ for @gpuTitle@ and @isaTitle@ CPUs";
    longDescription = ''
      PyTorch compiled for one kind of machine:
      - GPU: @SM@, that is @gpuParts@; @otherGpus@
      - Machines: @machines@
      - CPU: @cpuNeeds@
      - CUDA: @cuda@, which needs an NVIDIA driver of version @driver@ or newer
      - Linear algebra: cuBLAS and MAGMA on the GPU, OpenBLAS on the CPU
      - Python: @python@
    '';
    platforms = [ "@system@" ];
  };
})
