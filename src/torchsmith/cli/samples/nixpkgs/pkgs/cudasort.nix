# cudasort: a package that needs CUDA and no torch, and reads its GPU architecture from a variable of its own.
{ lib, stdenv, config, source, cudaPackages, buildPythonPackage, torch, cudaSupport ? config.cudaSupport }:

buildPythonPackage.override { stdenv = if cudaSupport then cudaPackages.backendStdenv else stdenv; } {
  pname = "cudasort";
  version = "1.4.0";
  format = "setuptools";
  src = source "example" "sort";

  nativeBuildInputs = lib.optionals cudaSupport [ cudaPackages.cuda_nvcc ];
  buildInputs = lib.optionals cudaSupport [ cudaPackages.cuda_cudart ];

  # The miniature's compiler lives in torch's sources; nothing of torch is linked.
  buildPhase = ''
    runHook preBuild
    PYTHONPATH=${torch.src}/torch/utils python3 setup.py build
    runHook postBuild
  '';
  installPhase = ''
    runHook preInstall
    mkdir -p $out/$sitePackages $dist
    cp -r build/cudasort $out/$sitePackages/cudasort
    runHook postInstall
  '';

  doCheck = false;
  pythonImportsCheck = [ "cudasort" ];

  meta = {
    description = "Sorts on the GPU";
    homepage = "https://example.org/sort";
    license = lib.licenses.bsd3;
    platforms = lib.platforms.linux;
  };
}
