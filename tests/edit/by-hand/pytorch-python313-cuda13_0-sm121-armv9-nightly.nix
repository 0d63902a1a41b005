# PyTorch nightly for NVIDIA DGX Spark (SM121) + ARMv9
# Needs CUDA 13 from the caller: flox build --stability=unstable

{ lib, pkgs, stdenv, fetchFromGitHub, python3, cudaPackages_13 }:

let
  magma = pkgs.magma.override {
    cudaSupport = true;
    cudaPackages = cudaPackages_13;
  };
in
stdenv.mkDerivation rec {
  pname = "pytorch-python313-cuda13_0-sm121-armv9-nightly";
  version = "2.9.0";

  src = fetchFromGitHub {
    owner = "pytorch";
    repo = "pytorch";
    rev = "v${version}";
    hash = "";
    fetchSubmodules = true;
  };

  nativeBuildInputs = [ python3 cudaPackages_13.cuda_nvcc ];
  buildInputs = [ magma cudaPackages_13.cuda_cudart cudaPackages_13.cudnn ];

  preConfigure = ''
    export TORCH_CUDA_ARCH_LIST="12.1"
    export CXXFLAGS="-march=armv9-a+sve2 $CXXFLAGS"
    export CFLAGS="-march=armv9-a+sve2 $CFLAGS"
  '';

  buildPhase = "python setup.py bdist_wheel";

  meta = {
    description = "PyTorch nightly for DGX Spark";
    platforms = [ "aarch64-linux" ];
  };
}
