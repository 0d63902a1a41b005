# torchsmith: format=1 variant=pytorch-python313-cuda12_8-sm120-avx512 line=flox content=sha256:dbb594086556275f799b90592137bb685bb2522a752807b46f080f5b21276732
# PyTorch as the Flox catalog has it, Python 3.13: NVIDIA Blackwell (SM120) and AVX-512 CPUs, CUDA 12.8.
# Package name: pytorch-python313-cuda12_8-sm120-avx512

{ lib
, python313Packages
, cudaPackages_12_8
, magma
}:

let
  # The one architecture that kernels are compiled for, as CUDA writes capabilities.
  gpuArch = "12.0";

  cpuFlags = [
    "-mavx512f"
    "-mavx512dq"
    "-mavx512vl"
    "-mavx512bw"
    "-mfma"
  ];

  # More compilers at once than this run a large builder out of memory.
  maxJobs = 32;

  # MAGMA and Triton follow this CUDA too: torch refuses a MAGMA of another one.
  torch = python313Packages.torch.override {
    cudaSupport = true;
    cudaPackages = cudaPackages_12_8;
    gpuTargets = [ gpuArch ];
    effectiveMagma = magma.override {
      cudaSupport = true;
      rocmSupport = false;
      static = true;
      cudaPackages = cudaPackages_12_8;
    };
    _tritonEffective = python313Packages.triton.override {
      cudaSupport = true;
      cudaPackages = cudaPackages_12_8;
    };
  };
in

# A package set whose CUDA is another one must not pass for 12.8.
assert cudaPackages_12_8.cudaMajorMinorVersion == "12.8";

torch.overrideAttrs (oldAttrs: {
  pname = "pytorch-python313-cuda12_8-sm120-avx512";

  # TORCH_CUDA_ARCH_LIST is already set, from gpuTargets.
  preConfigure = (oldAttrs.preConfigure or "")
    # CMake takes its first C and C++ flags from here; the flags of dispatched kernels come after them.
    # -fmessage-length=10001 changes no code: recorded in a library, it proves that these flags reached a unit.
    + ''
      export CFLAGS="${toString cpuFlags} -fmessage-length=10001 ''${CFLAGS:-}"
      export CXXFLAGS="${toString cpuFlags} -fmessage-length=10001 ''${CXXFLAGS:-}"
    ''
    # Added by the compiler wrapper to every call, so a unit that the flags did not reach records that too.
    + ''
      export NIX_CFLAGS_COMPILE="''${NIX_CFLAGS_COMPILE:-} -frecord-gcc-switches"
    ''
    # XNNPACK, part of torch before 2.14, also compiles micro-kernels that only its tests and benchmarks link: 3,303 units on
    # x86, 2,355 on ARM. Their library is switched off. Its name goes too: CMake would stop at an option that gcc 14 gets for it.
    + ''
      sed -i -e '/set(XNNPACK_BUILD_TESTS OFF/a set(XNNPACK_BUILD_ALL_MICROKERNELS OFF CACHE BOOL "")' \
        -e 's/ microkernels-all//' cmake/Dependencies.cmake
    ''
    # On CPUs with AVX-512 torch runs the AVX2 form of most of its dispatched kernels. The cell's flags alone would let GCC use
    # AVX-512 in them too, which makes some of them 10 to 20 % slower.
    + ''
      sed -i 's/-mavx2 -mfma/-mno-avx512f &/' cmake/Codegen.cmake
    ''
    # Marks the host half of a CUDA unit, which gets none of CXXFLAGS.
    + ''
      export NVCC_APPEND_FLAGS="''${NVCC_APPEND_FLAGS:-} -Xcompiler=-fmessage-length=10002"
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
      echo "CUDA: ${cudaPackages_12_8.cudaMajorMinorVersion}"
      echo "MAGMA: Enabled"
      echo "========================================="
    '';

  passthru = oldAttrs.passthru // {
    inherit gpuArch;
    # torchvision and torchaudio take their architecture list from here.
    cudaCapabilities = [ gpuArch ];
    torchsmith = {
      variant = "pytorch-python313-cuda12_8-sm120-avx512";
      line = "flox";
    };
  };

  meta = oldAttrs.meta // {
    description = "PyTorch with CUDA 12.8 for NVIDIA Blackwell (SM120) and AVX-512 CPUs";
    longDescription = ''
      PyTorch compiled for one kind of machine:
      - GPU: SM120, that is RTX 50 series, RTX PRO Blackwell; its own kernels for no other architecture, libraries of nixpkgs below it for more
      - Machines: x86_64 with such a GPU
      - CPU: x86-64 with avx, avx2, avx512bw, avx512dq, avx512f, avx512vl, fma, popcnt, sse4_2 (first in Skylake-X, Skylake-SP, Zen 4)
      - CUDA: 12.8, which needs an NVIDIA driver of version 570 or newer
      - Linear algebra: cuBLAS and MAGMA on the GPU, OpenBLAS on the CPU
      - Python: 3.13
    '';
    platforms = [ "x86_64-linux" ];
  };
})
