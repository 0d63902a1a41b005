# torchaudio: pulls in ffmpeg_6-full, and through frei0r OpenCV with CUDA, as nixpkgs' did until 2026.
{
  lib, release, source, torch, buildPythonPackage, symlinkJoin, cmake, pkg-config, ninja, ffmpeg_6-full, pybind11, sox,
  cudaSupport ? torch.cudaSupport,
  cudaPackages,
  gpuTargets ? [ ],
}:

buildPythonPackage {
  pname = "torchaudio";
  version = release.torchaudio;
  pyproject = true;
  stdenv = torch.stdenv;
  src = source "pytorch" "audio";

  env.TORCH_CUDA_ARCH_LIST = lib.concatStringsSep ";" torch.cudaCapabilities;
  FFMPEG_ROOT = symlinkJoin {
    name = "ffmpeg";
    paths = [ ffmpeg_6-full.bin ffmpeg_6-full.dev ffmpeg_6-full.lib ];
  };
  BUILD_SOX = 0;
  dontUseCmakeConfigure = true;

  nativeBuildInputs = [ cmake pkg-config ninja ] ++ lib.optionals cudaSupport [ cudaPackages.cuda_nvcc ];
  buildInputs = [ ffmpeg_6-full pybind11 sox torch.cxxdev ];
  dependencies = [ torch ];

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
}
