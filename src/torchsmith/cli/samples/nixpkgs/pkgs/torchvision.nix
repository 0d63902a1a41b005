# torchvision: takes its GPU architectures from torch's passthru, as nixpkgs' does.
{ lib, release, source, torch, buildPythonPackage, libpng, libjpeg_turbo, ninja, which, numpy, pillow, scipy }:

let
  inherit (torch) cudaCapabilities cudaPackages cudaSupport;
in
buildPythonPackage {
  __structuredAttrs = release.structured or false;
  pname = "torchvision";
  version = release.torchvision;
  format = "setuptools";
  stdenv = torch.stdenv;
  src = source "pytorch" "vision";

  nativeBuildInputs = [ libpng ninja which ] ++ lib.optionals cudaSupport [ cudaPackages.cuda_nvcc ];
  buildInputs = [ libjpeg_turbo libpng torch.cxxdev ];
  dependencies = [ numpy pillow torch scipy ];

  env = {
    TORCHVISION_INCLUDE = "${libjpeg_turbo.dev}/include/";
  }
  // lib.optionalAttrs cudaSupport {
    TORCH_CUDA_ARCH_LIST = lib.concatStringsSep ";" cudaCapabilities;
    FORCE_CUDA = 1;
  };

  preBuild = ''
    export version PYTHONPATH=${torch}/$sitePackages/torch/utils
  '';
  buildPhase = ''
    runHook preBuild
    python3 setup.py build
    runHook postBuild
  '';
  installPhase = ''
    runHook preInstall
    mkdir -p $out/$sitePackages $dist
    cp -r build/torchvision $out/$sitePackages/torchvision
    runHook postInstall
  '';

  doCheck = false;
  pythonImportsCheck = [ "torchvision" ];

  meta = {
    description = "PyTorch vision library";
    homepage = "https://pytorch.org/";
    license = lib.licenses.bsd3;
    platforms = lib.platforms.linux;
  };
}
