# torchaudio as nixpkgs has it since 2026: no ffmpeg of its own, but torchcodec, which holds torch too.
{
  lib, release, source, torch, torchcodec, buildPythonPackage, setuptools,
  cudaSupport ? torch.cudaSupport,
  cudaPackages,
}:

buildPythonPackage.override { inherit (torch) stdenv; } (finalAttrs: {
  pname = "torchaudio";
  version = release.torchaudio;
  pyproject = true;
  src = source "pytorch" "audio";

  env = {
    USE_CUDA = cudaSupport;
    TORCH_CUDA_ARCH_LIST = lib.concatStringsSep ";" torch.cudaCapabilities;
  };

  build-system = [ setuptools ];
  nativeBuildInputs = lib.optionals cudaSupport [ cudaPackages.cuda_nvcc ];
  buildInputs = lib.optionals cudaSupport [ cudaPackages.cuda_cudart ];
  dependencies = [ torch torchcodec ];

  buildPhase = ''
    runHook preBuild
    PYTHONPATH=${torch}/$sitePackages/torch/utils python3 setup.py build
    runHook postBuild
  '';
  installPhase = ''
    runHook preInstall
    mkdir -p $out/$sitePackages $dist
    cp -r build/torchaudio $out/$sitePackages/torchaudio
    runHook postInstall
  '';

  doCheck = false;
  pythonImportsCheck = [ "torchaudio" ];

  meta = {
    description = "PyTorch audio library";
    homepage = "https://pytorch.org/";
    license = lib.licenses.bsd2;
    platforms = lib.platforms.linux;
  };
})
