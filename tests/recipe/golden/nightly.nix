# torchsmith: format=1 variant=pytorch-python313-cuda13_0-sm121-armv9-nightly line=nightly content=sha256:fc0bdbfd696dcb322662feff527c4532d9490067547070fc8681e57db114c15f
# PyTorch from its development branch, Python 3.13: NVIDIA Blackwell (SM121) and ARMv9-A with SVE2 CPUs, CUDA 13.0.
# Its inputs come from Flox, whose stable catalog has no CUDA 13: flox build --stability=unstable pytorch-python313-cuda13_0-sm121-armv9-nightly

{ lib
, pkgs
, fetchFromGitHub
, fetchpatch
, python313Packages
, cudaPackages_13
  # callPackage fills this in if the package set spells out the minor version.
, cudaPackages_13_0 ? cudaPackages_13
, autoAddDriverRunpath
, blas
, numactl
, openssl
, pkg-config
, which
}:

let
  # Source of this build; both come from the workspace file.
  nightlyRev = "0123456789abcdef0123456789abcdef01234567";
  nightlyHash = "";
  nightlyVersion = "2.11.0.dev20260201";

  # SM121: the one architecture that kernels are compiled for.
  gpuArchSM = "12.1";

  # ARMv9-A with SVE2: for all C and C++ code; of CUDA code nvcc's host compiler gets none of it.
  cpuFlags = [
    "-march=armv9-a+sve+sve2"
  ];

  # More compilers at once than this run a large builder out of memory.
  maxJobs = 32;

  cuda = cudaPackages_13_0;
  cccl = cuda.cccl or cuda.cuda_cccl; # newer package sets have it under the shorter name

  magmaFix = "235aefb7b064954fce09d035c69907ba8a87cbcd";
  magma = (pkgs.magma.override {
    cudaSupport = true;
    rocmSupport = false;
    static = true;
    cudaPackages = cuda;
  }).overrideAttrs (oldAttrs: {
    # MAGMA 2.9.0 reads a device property that CUDA 13 dropped; a package set that has the fix keeps its own.
    patches = (oldAttrs.patches or [ ])
      ++ lib.optional (!(lib.any (p: lib.hasInfix magmaFix (toString (p.urls or [ ]))) (oldAttrs.patches or [ ]))) (fetchpatch {
        name = "cuda-13.0-clockrate-fix.patch";
        url = "https://github.com/icl-utk-edu/magma/commit/235aefb7b064954fce09d035c69907ba8a87cbcd.patch";
        hash = "sha256-i9InbxD5HtfonB/GyF9nQhFmok3jZ73RxGcIciGBGvU=";
      });
  });
in

assert lib.assertMsg (cuda.cudaMajorMinorVersion == "13.0")
  "this recipe is for CUDA 13.0, but the package set offers ${cuda.cudaMajorMinorVersion}; use the -nightly-wrapper recipe";

(python313Packages.buildPythonPackage.override { stdenv = cuda.backendStdenv; }) {
  pname = "pytorch-python313-cuda13_0-sm121-armv9-nightly";
  version = nightlyVersion;
  pyproject = true;

  src = fetchFromGitHub {
    owner = "pytorch";
    repo = "pytorch";
    rev = nightlyRev;
    hash = nightlyHash;
    fetchSubmodules = true;
  };

  # cxxdev carries the CUDA libraries on to C++ extensions such as torchvision.
  outputs = [
    "out"
    "cxxdev"
  ];
  cudaPropagateToOutput = "cxxdev";

  postPatch =
    # The upper bound is for releases older than any nixpkgs that has CUDA 13.
    ''
      sed -i -E 's/"setuptools[^"]*"/"setuptools"/' pyproject.toml
    ''
    # SM121 is added only if the source does not have it yet.
    + ''
      echo "Patching CMake files to add SM121 support"
      for file in cmake/Modules_CUDA_fix/upstream/FindCUDA/select_compute_arch.cmake; do
        if grep -q '_GPU_ARCHITECTURES "12\.1"' "$file"; then
          echo "SM121 is already in $file"
          continue
        fi
        sed -i 's/^\( *list(APPEND CUDA_[A-Z]*_GPU_ARCHITECTURES \)"12\.0")$/&\n\1"12.1")/' "$file"
        if ! grep -q '_GPU_ARCHITECTURES "12\.1"' "$file"; then
          echo "$file has no SM120 line to follow: SM121 could not be added" >&2
          exit 1
        fi
        echo "✓ SM121 support added to $file"
      done
    ''
    # PyTorch's copy of this module does not know nixpkgs' split CUDA; the full path keeps the stub from finding itself.
    + ''
      echo 'include("''${CMAKE_ROOT}/Modules/FindCUDAToolkit.cmake")' > cmake/Modules/FindCUDAToolkit.cmake
      sed -i 's/message(FATAL_ERROR "Found two conflicting CUDA/message(WARNING "Found two conflicting CUDA/' cmake/public/cuda.cmake
      sed -i 's/^set(CUDAToolkit_ROOT/# &/' cmake/public/cuda.cmake
    '';

  dontUseCmakeConfigure = true;

  env = {
    CMAKE_GENERATOR = "Ninja";
    TORCH_CUDA_ARCH_LIST = gpuArchSM;
    PYTORCH_BUILD_VERSION = nightlyVersion;
    PYTORCH_BUILD_NUMBER = "0";
    BUILD_TEST = "0";
    USE_CUDA = "1";
    USE_CUDNN = "1";
    USE_NCCL = "1";
    USE_SYSTEM_NCCL = "1";
    USE_STATIC_NCCL = "1";
    USE_SYSTEM_PYBIND11 = "1";
    USE_NNPACK = "0"; # its build downloads Python packages
    BLAS = "OpenBLAS";
    CUDNN_INCLUDE_DIR = "${lib.getInclude cuda.cudnn}/include";
    CUDNN_LIB_DIR = "${lib.getLib cuda.cudnn}/lib";
    NIX_CFLAGS_COMPILE = "-Wno-error -Wno-error=incompatible-pointer-types";
  };

  preConfigure =
    # CCCL links: CUTLASS asks CUDA 13 for <cccl/cuda/...>, which nixpkgs keeps one level higher.
    ''
      mkdir -p "$NIX_BUILD_TOP/cccl-compat/cccl"
      for part in cuda cub thrust nv; do
        ln -sfn "${cccl}/include/$part" "$NIX_BUILD_TOP/cccl-compat/cccl/$part"
      done
      export CMAKE_CUDA_FLAGS="-I$NIX_BUILD_TOP/cccl-compat"
    ''
    + ''
      export CFLAGS="${toString cpuFlags} -fmessage-length=10001 ''${CFLAGS:-}"
      export CXXFLAGS="${toString cpuFlags} -fmessage-length=10001 ''${CXXFLAGS:-}"
      export NVCC_APPEND_FLAGS="''${NVCC_APPEND_FLAGS:-} -Xcompiler=-fmessage-length=10002 -compress-mode=size"
      export NIX_CFLAGS_COMPILE="$NIX_CFLAGS_COMPILE -frecord-gcc-switches"
      if [ "$NIX_BUILD_CORES" -gt ${toString maxJobs} ]; then
        export NIX_BUILD_CORES=${toString maxJobs}
      fi
      export MAX_JOBS=$NIX_BUILD_CORES

      echo "========================================="
      echo "PyTorch Build Configuration"
      echo "========================================="
      echo "Source: ${nightlyRev}"
      echo "GPU Target: ${gpuArchSM}"
      echo "CPU Flags: ${toString cpuFlags}"
      echo "CUDA: ${cuda.cudaMajorMinorVersion}"
      echo "MAGMA: Enabled"
      echo "Parallel Jobs: $NIX_BUILD_CORES"
      echo "========================================="
    '';

  nativeBuildInputs = [
    python313Packages.cmake
    python313Packages.ninja
    python313Packages.pybind11
    autoAddDriverRunpath
    cuda.cuda_nvcc
    pkg-config
    which
  ];

  buildInputs = [
    blas
    blas.provider
    magma
    numactl
    openssl
    cccl
    cuda.cuda_cudart
    cuda.cuda_cupti
    cuda.cuda_nvcc
    cuda.cuda_nvml_dev
    cuda.cuda_nvrtc
    cuda.cuda_nvtx
    cuda.cuda_profiler_api
    cuda.cudnn
    cuda.libcublas
    cuda.libcufft
    cuda.libcufile
    cuda.libcurand
    cuda.libcusolver
    cuda.libcusparse
    cuda.libcusparse_lt
    (lib.getDev cuda.nccl)
    (lib.getOutput "static" cuda.nccl)
  ];

  build-system = with python313Packages; [
    numpy
    packaging
    pyyaml
    requests
    setuptools
    six
    typing-extensions
  ]
  ++ lib.optional (
    lib.versionAtLeast (python313Packages.scikit-build-core.version or "0") "1.0"
  ) python313Packages.scikit-build-core;

  dependencies = with python313Packages; [
    filelock
    fsspec
    jinja2
    networkx
    numpy
    pybind11
    pyyaml
    setuptools
    sympy
    typing-extensions
  ];

  # The wheel build reuses what the first configure left in build/; scikit-build-core, since 2.15, configures there itself.
  preBuild = ''
    grep -qs scikit_build_core pyproject.toml || python setup.py build --cmake-only
  '';

  # libnvrtc is loaded by name at run time.
  postFixup = ''
    find "$out" -type f -name '*.so*' -exec patchelf --add-rpath "${lib.getLib cuda.cuda_nvrtc}/lib" '{}' \;
  '';

  doCheck = false;
  pythonImportsCheck = [ "torch" ];
  requiredSystemFeatures = [ "big-parallel" ];

  passthru = {
    # What torchvision asks of the torch it is built for.
    cudaSupport = true;
    rocmSupport = false;
    cudaPackages = cuda;
    cudaCapabilities = [ gpuArchSM ];
    inherit magma;
    torchsmith = {
      variant = "pytorch-python313-cuda13_0-sm121-armv9-nightly";
      line = "nightly";
    };
  };

  meta = {
    description = "PyTorch development build with CUDA 13.0 for NVIDIA Blackwell (SM121) and ARMv9-A with SVE2 CPUs";
    longDescription = ''
      PyTorch at one revision of its development branch, compiled for one kind of machine:
      - GPU: SM121, that is GB10, DGX Spark; its own kernels for no other architecture, libraries of nixpkgs below it for more
      - CPU: 64-bit ARM with asimddp, asimdfhm, asimdhp, asimdrdm, atomics, crc32, fcma, fphp, frint, jscvt, sve, sve2 (first in Neoverse V2 (Grace, Graviton4), Neoverse N2, GB10)
      - CUDA: 13.0, which needs an NVIDIA driver of version 580 or newer
      - Python: 3.13
    '';
    homepage = "https://pytorch.org/";
    license = lib.licenses.bsd3;
    platforms = [ "aarch64-linux" ];
  };
}
