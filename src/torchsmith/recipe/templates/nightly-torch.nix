# PyTorch from its development branch, Python @python@: @gpuTitle@ and @isaTitle@ CPUs, CUDA @cuda@.
# Its inputs come from Flox, whose stable catalog has no CUDA 13: flox build --stability=@stability@ pytorch-@cell@

{ lib
, pkgs
, fetchFromGitHub
, fetchpatch
, @pythonPackages@
, @cudaMajorSet@
  # callPackage fills this in if the package set spells out the minor version.
, @cudaSet@ ? @cudaMajorSet@
, autoAddDriverRunpath
, blas
, numactl
, openssl
, pkg-config
, which
}:

let
  # Source of this build; both come from the workspace file.
  nightlyRev = "@nightly.rev@";
  nightlyHash = "@nightly.hash@";
  nightlyVersion = "@nightly.version@";

  # @SM@: the one architecture that kernels are compiled for.
  gpuArchSM = "@capability@";

  # @isaTitle@: for all C and C++ code; of CUDA code nvcc's host compiler gets none of it.
  cpuFlags = @cpuFlags@;

  # More compilers at once than this run a large builder out of memory.
  maxJobs = @maxJobs@;

  cuda = @cudaSet@;
  cccl = cuda.cccl or cuda.cuda_cccl; # newer package sets have it under the shorter name

  magmaFix = "@patch.clockrate.rev@";
  magma = (pkgs.magma.override {
    cudaSupport = true;
    rocmSupport = false;
    static = true;
    cudaPackages = cuda;
  }).overrideAttrs (oldAttrs: {
    # MAGMA 2.9.0 reads a device property that CUDA 13 dropped; a package set that has the fix keeps its own.
    patches = (oldAttrs.patches or [ ])
      ++ lib.optional (!(lib.any (p: lib.hasInfix magmaFix (toString (p.urls or [ ]))) (oldAttrs.patches or [ ]))) (fetchpatch {
        name = "@patch.clockrate.name@";
        url = "@patch.clockrate.url@";
        hash = "@patch.clockrate.hash@";
      });
  });
in

assert lib.assertMsg (cuda.cudaMajorMinorVersion == "@cuda@")
  "this recipe is for CUDA @cuda@, but the package set offers ${cuda.cudaMajorMinorVersion}; use the -nightly-wrapper recipe";

(@pythonPackages@.buildPythonPackage.override { stdenv = cuda.backendStdenv; }) {
  pname = "pytorch-@cell@";
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
    # @SM@ is added only if the source does not have it yet.
    + ''
      echo "Patching CMake files to add @SM@ support"
      for file in cmake/Modules_CUDA_fix/upstream/FindCUDA/select_compute_arch.cmake; do
        if grep -q '_GPU_ARCHITECTURES "@capabilityPattern@"' "$file"; then
          echo "@SM@ is already in $file"
          continue
        fi
        sed -i 's/^\( *list(APPEND CUDA_[A-Z]*_GPU_ARCHITECTURES \)"12\.0")$/&\n\1"@capability@")/' "$file"
        if ! grep -q '_GPU_ARCHITECTURES "@capabilityPattern@"' "$file"; then
          echo "$file has no SM120 line to follow: @SM@ could not be added" >&2
          exit 1
        fi
        echo "✓ @SM@ support added to $file"
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
    #? include avx2-kernels.nix
    + ''
      export CFLAGS="${toString cpuFlags} @cxxMark@ ''${CFLAGS:-}"
      export CXXFLAGS="${toString cpuFlags} @cxxMark@ ''${CXXFLAGS:-}"
      export NVCC_APPEND_FLAGS="''${NVCC_APPEND_FLAGS:-} -Xcompiler=@hostMark@@nvccFlags@"
      export NIX_CFLAGS_COMPILE="$NIX_CFLAGS_COMPILE @recordFlag@"
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
    @pythonPackages@.cmake
    @pythonPackages@.ninja
    @pythonPackages@.pybind11
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

  build-system = with @pythonPackages@; [
    numpy
    packaging
    pyyaml
    requests
    setuptools
    six
    typing-extensions
  ]
  ++ lib.optional (
    lib.versionAtLeast (@pythonPackages@.scikit-build-core.version or "0") "1.0"
  ) @pythonPackages@.scikit-build-core;

  dependencies = with @pythonPackages@; [
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
      variant = "pytorch-@cell@";
      line = "@line@";
    };
  };

  meta = {
    description = "PyTorch development build with CUDA @cuda@ for @gpuTitle@ and @isaTitle@ CPUs";
    longDescription = ''
      PyTorch at one revision of its development branch, compiled for one kind of machine:
      - GPU: @SM@, that is @gpuParts@; @otherGpus@
      - CPU: @cpuNeeds@
      - CUDA: @cuda@, which needs an NVIDIA driver of version @driver@ or newer
      - Python: @python@
    '';
    homepage = "https://pytorch.org/";
    license = lib.licenses.bsd3;
    platforms = [ "@system@" ];
  };
}
