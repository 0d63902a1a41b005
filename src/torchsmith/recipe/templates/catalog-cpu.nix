# PyTorch as the Flox catalog has it, Python @python@: @isaTitle@ CPUs, no GPU.
# Package name: pytorch-@cell@

{ @pythonPackages@
}:

let
  cpuFlags = @cpuFlags@;

  # More compilers at once than this run a large builder out of memory.
  maxJobs = @maxJobs@;
in

(@pythonPackages@.torch.override {
  cudaSupport = false;
  rocmSupport = false;
  # Triton's own default would follow the package set's CUDA setting.
  _tritonEffective = @pythonPackages@.triton.override { cudaSupport = false; };
}).overrideAttrs (oldAttrs: {
  pname = "pytorch-@cell@";

  # BLAS needs no word here: nixpkgs' torch links OpenBLAS, built for run-time dispatch.
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
    # @cxxMark@ changes no code: recorded in a library, it proves that these flags reached a unit.
    + ''
      export CFLAGS="${toString cpuFlags} @cxxMark@ ''${CFLAGS:-}"
      export CXXFLAGS="${toString cpuFlags} @cxxMark@ ''${CXXFLAGS:-}"
    ''
    #? include record-flags.nix
    #? include xnnpack.nix
    #? include avx2-kernels.nix
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
      echo "GPU Target: None (CPU-only build)"
      echo "CPU Flags: ${toString cpuFlags}"
      echo "BLAS Backend: OpenBLAS"
      echo "CUDA: Disabled"
      echo "========================================="
    '';

  passthru = oldAttrs.passthru // {
    gpuArch = null;
    torchsmith = {
      variant = "pytorch-@cell@";
      line = "@line@";
    };
  };

  meta = oldAttrs.meta // {
    description = "PyTorch without CUDA for @isaTitle@ CPUs";
    longDescription = ''
      PyTorch compiled for one kind of machine:
      - GPU: none
      - CPU: @cpuNeeds@
      - Linear algebra: OpenBLAS
      - Python: @python@
    '';
    platforms = [ "@system@" ];
  };
})
