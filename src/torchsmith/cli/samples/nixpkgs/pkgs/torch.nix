# torch: nixpkgs' arguments, passthru and hooks around a source that compiles in a second. Its variables are
# attributes, as they were until 2026, or all in `env` of structured attributes, as they are since.
{
  lib, stdenv, config, release, source, buildPythonPackage, python,
  cudaSupport ? config.cudaSupport,
  cudaPackages,
  rocmSupport ? config.rocmSupport,
  gpuTargets ? [ ],
  effectiveMagma ? if cudaSupport then magma-cuda-static else magma,
  magma, magma-cuda-static,
  useSystemNccl ? cudaSupport && cudaPackages.nccl.meta.available,
  MPISupport ? false, mpi,
  tritonSupport ? true,
  _tritonEffective ? if cudaSupport then triton-cuda else triton,
  triton, triton-cuda,
  mklDnnSupport ? true,
  vulkanSupport ? false,
  buildDocs ? false,
  blas, autoAddDriverRunpath, cmake, ninja, which, pybind11, numactl,
  astunparse, filelock, fsspec, jinja2, networkx, packaging, pyyaml, requests, six, sympy, typing-extensions,
}:

let
  setBool = value: if value then "1" else "0";

  structured = release.structured or false;

  # PyTorch's own list at this release: it has no 11.0, so an SM110 cell must say its target itself.
  supported = lib.intersectLists cudaPackages.flags.cudaCapabilities [ "7.5" "8.0" "8.6" "8.7" "8.9" "9.0" "10.0" "10.3" "12.0" "12.1" ];

  targets = if gpuTargets != [ ] then gpuTargets else supported;

  brokenConditions = lib.filterAttrs (_: condition: condition) {
    "CUDA and ROCm are mutually exclusive" = cudaSupport && rocmSupport;
    "Unsupported CUDA version" = cudaSupport && !(lib.elem cudaPackages.cudaMajorVersion ([ "11" "12" ] ++ lib.optional structured "13"));
    "Magma cudaPackages does not match cudaPackages" =
      cudaSupport && effectiveMagma.cudaPackages.cudaMajorMinorVersion != cudaPackages.cudaMajorMinorVersion;
  };
in
buildPythonPackage.override { stdenv = if cudaSupport then cudaPackages.backendStdenv else stdenv; } (finalAttrs: let
  variables = rec {
    CMAKE_GENERATOR = "Ninja";
    BUILD_DOCS = setBool buildDocs;
    BUILD_TEST = setBool false;
    USE_MKLDNN = setBool mklDnnSupport;
    USE_MKLDNN_CBLAS = setBool mklDnnSupport;
    USE_NNPACK = 1;
    USE_NCCL = setBool useSystemNccl;
    USE_SYSTEM_NCCL = USE_NCCL;
    PYTORCH_BUILD_VERSION = if structured then finalAttrs.version else release.torch;
    PYTORCH_BUILD_NUMBER = 0;
  };
  env = {
    NIX_CFLAGS_COMPILE = "-Wno-error";
    USE_VULKAN = setBool vulkanSupport;
  };
in
(if structured then { __structuredAttrs = true; env = variables // env; } else variables // { inherit env; }) // {
  pname = "torch";
  version = release.torch;
  pyproject = true;
  outputs = [ "out" "dev" "lib" "cxxdev" ];

  src = source "pytorch" "pytorch";
  patches = lib.optionals cudaSupport [ ./torch-drops-install-rule.patch ];

  postPatch = lib.optionalString cudaSupport ''
    rm cmake/Modules/FindCUDAToolkit.cmake
  '';

  preConfigure = lib.optionalString cudaSupport ''
    export TORCH_CUDA_ARCH_LIST="${lib.concatStringsSep ";" targets}"
    export CUDNN_INCLUDE_DIR=${lib.getDev cudaPackages.cudnn}/include
    export CUDNN_LIB_DIR=${lib.getLib cudaPackages.cudnn}/lib
  '';

  dontUseCmakeConfigure = true;
  cmakeFlags = [ (lib.cmakeFeature "CUDAToolkit_VERSION" cudaPackages.cudaMajorMinorVersion) ];

  preBuild = ''
    export MAX_JOBS=$NIX_BUILD_CORES
    export system lib USE_CUDA=''${USE_CUDA:-${setBool cudaSupport}} CUDA_VERSION=${lib.optionalString cudaSupport cudaPackages.cudaMajorMinorVersion}
    python3 setup.py build --cmake-only
  '';
  buildPhase = ''
    runHook preBuild
    python3 setup.py build
    runHook postBuild
  '';
  installPhase = ''
    runHook preInstall
    mkdir -p $out/$sitePackages $lib/lib $dev/include $dist
    cp -r build/torch $out/$sitePackages/torch
    mv $out/$sitePackages/torch/lib/* $lib/lib/
    rmdir $out/$sitePackages/torch/lib
    ln -s $lib/lib $out/$sitePackages/torch/lib
    runHook postInstall
  '';

  nativeBuildInputs = [ cmake which ninja pybind11 ] ++ lib.optionals cudaSupport [ autoAddDriverRunpath cudaPackages.cuda_nvcc ];

  buildInputs =
    [ blas blas.provider numactl ]
    ++ lib.optionals cudaSupport (
      with cudaPackages;
      [
        (if structured then cccl else cuda_cccl) cuda_cudart cuda_cupti cuda_nvcc cuda_nvml_dev cuda_nvrtc cuda_nvtx cuda_profiler_api
        libcublas libcufft libcufile libcurand libcusolver libcusparse libcusparse_lt cudnn
      ]
    )
    ++ lib.optionals useSystemNccl [ (lib.getDev cudaPackages.nccl) (lib.getOutput "static" cudaPackages.nccl) ]
    ++ lib.optionals cudaSupport [ effectiveMagma ]
    ++ lib.optionals tritonSupport [ _tritonEffective ]
    ++ lib.optionals MPISupport [ mpi ];

  dependencies =
    [ astunparse filelock fsspec jinja2 networkx packaging pyyaml requests six sympy typing-extensions ]
    ++ lib.optionals tritonSupport [ _tritonEffective ];

  doCheck = false;
  pythonImportsCheck = [ "torch" ];
  requiredSystemFeatures = [ "big-parallel" ];

  passthru = {
    inherit brokenConditions cudaPackages cudaSupport rocmSupport;
    stdenv = if cudaSupport then cudaPackages.backendStdenv else stdenv;
    cudaCapabilities = if cudaSupport then supported else [ ];
    blasProvider = blas.provider;
  };

  meta = {
    changelog = "https://github.com/pytorch/pytorch/releases/tag/v${finalAttrs.version}";
    description = "PyTorch: Tensors and Dynamic neural networks in Python with strong GPU acceleration";
    homepage = "https://pytorch.org/";
    license = lib.licenses.bsd3;
    platforms = lib.platforms.linux;
    broken = brokenConditions != { };
  };
})
