# torchmix: a package of somebody else's that needs torch and takes its GPU architectures from it.
{ lib, source, torch, buildPythonPackage, ninja, which, numpy }:

let
  inherit (torch) cudaCapabilities cudaPackages cudaSupport;
in
buildPythonPackage {
  pname = "torchmix";
  version = "0.3.0";
  format = "setuptools";
  stdenv = torch.stdenv;
  src = source "example" "mix";

  nativeBuildInputs = [ ninja which ] ++ lib.optionals cudaSupport [ cudaPackages.cuda_nvcc ];
  buildInputs = [ torch.cxxdev ];
  dependencies = [ numpy torch ];

  env = lib.optionalAttrs cudaSupport { TORCH_CUDA_ARCH_LIST = lib.concatStringsSep ";" cudaCapabilities; };

  buildPhase = ''
    runHook preBuild
    PYTHONPATH=${torch}/$sitePackages/torch/utils python3 setup.py build
    runHook postBuild
  '';
  installPhase = ''
    runHook preInstall
    mkdir -p $out/$sitePackages $dist
    cp -r build/torchmix $out/$sitePackages/torchmix
    runHook postInstall
  '';

  doCheck = false;
  pythonImportsCheck = [ "torchmix" ];

  meta = {
    description = "Mixes tensors";
    homepage = "https://example.org/mix";
    license = lib.licenses.bsd3;
    platforms = lib.platforms.linux;
  };
}
