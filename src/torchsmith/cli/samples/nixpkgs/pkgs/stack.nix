# Stand-ins for what people ship beside torch, each told its GPU, its torch and its needs as nixpkgs' own is.
{ lib, pkgs }:

pfinal:

let
  inherit (pfinal) callPackage;

  build = ''
    runHook preBuild
    PYTHONPATH=${pfinal.torch.src}/torch/utils python3 setup.py
    runHook postBuild
  '';
  install = ''
    runHook preInstall
    mkdir -p $out/$sitePackages $dist
    cp -r build/$module $out/$sitePackages/$module
    runHook postInstall
  '';

  # A Python package with a library of its own; `listName` is the variable or CMake flag that names its GPUs.
  compiled =
    { pname, version, module, library, listName, torch, dependencies ? [ ], env ? { }, cmakeFlags ? [ ], broken ? false }:
    pfinal.buildPythonPackage {
      inherit pname version module library listName cmakeFlags env;
      format = "setuptools";
      stdenv = torch.stdenv;
      src = pkgs.source "example" "kernels";
      nativeBuildInputs = lib.optionals torch.cudaSupport [ torch.cudaPackages.cuda_nvcc ];
      dependencies = [ torch ] ++ dependencies;
      buildPhase = build;
      installPhase = install;
      pythonImportsCheck = [ module ];
      meta = { inherit broken; description = "Stands for ${pname}"; platforms = lib.platforms.linux; };
    };
  archs = torch: lib.optionalAttrs torch.cudaSupport { TORCH_CUDA_ARCH_LIST = lib.concatStringsSep ";" torch.cudaCapabilities; };
in
{
  # It lists torch among its check's inputs: overriding flash-attn's torch alone leaves a second one below it.
  einops = callPackage ({ buildPythonPackage, torch }: buildPythonPackage { pname = "einops"; version = "0.8.1"; nativeBuildInputs = [ torch ]; }) { };

  xformers = callPackage (
    { torch, numpy }:
    compiled {
      pname = "xformers";
      version = "0.0.30";
      module = "xformers";
      library = "_C.so";
      listName = "TORCH_CUDA_ARCH_LIST";
      env = archs torch;
      dependencies = [ numpy ];
      inherit torch;
    }
  ) { };

  flash-attn = callPackage (
    { torch, einops }:
    compiled {
      pname = "flash-attention";
      version = "2.8.2";
      module = "flash_attn";
      library = "flash_attn_2_cuda.so";
      listName = "FLASH_ATTN_CUDA_ARCHS";
      env = archs torch;
      dependencies = [ einops ];
      broken = !torch.cudaSupport;
      inherit torch;
    }
  ) { };

  bitsandbytes = callPackage (
    { torch, scipy }:
    compiled {
      pname = "bitsandbytes";
      version = "0.48.2";
      module = "bitsandbytes";
      # Called after the CUDA release, as its CMake does.
      library =
        if torch.cudaSupport then
          "libbitsandbytes_cuda${builtins.replaceStrings [ "." ] [ "" ] torch.cudaPackages.cudaMajorMinorVersion}.so"
        else
          "libbitsandbytes_cpu.so";
      listName = "COMPUTE_CAPABILITY";
      dependencies = [ scipy ];
      inherit torch;
    }
  ) { };

  vllm = callPackage (
    { torch, torchvision, torchaudio, xformers, bitsandbytes, cudaPackages, gpuTargets ? [ ] }:
    compiled {
      pname = "vllm";
      version = "0.11.0";
      module = "vllm";
      library = "_C.abi3.so";
      listName = "TORCH_CUDA_ARCH_LIST";
      cmakeFlags = [
        "-DTORCH_CUDA_ARCH_LIST:STRING=${lib.concatStringsSep ";" gpuTargets}"
        "-DCUTLASS_NVCC_ARCHS_ENABLED:STRING=75;80;90"
      ];
      dependencies = [ torchvision torchaudio xformers bitsandbytes ];
      inherit torch;
    }
  ) { };

  torchsde = callPackage (
    { buildPythonPackage, torch, scipy }:
    buildPythonPackage {
      pname = "torchsde";
      version = "0.2.6";
      dependencies = [ scipy torch ];
      installPhase = ''
        mkdir -p $out/$sitePackages/torchsde $dist
        echo '"""A stand-in in Python alone."""' > $out/$sitePackages/torchsde/__init__.py
      '';
      pythonImportsCheck = [ "torchsde" ];
      meta.platforms = lib.platforms.linux;
    }
  ) { };

  # nixpkgs' wraps what pkgs.onnxruntime compiles.
  onnxruntime = callPackage (
    { buildPythonPackage, onnxruntime, numpy }:
    buildPythonPackage {
      inherit (onnxruntime) pname version;
      format = "wheel";
      src = onnxruntime;
      dependencies = [ numpy ];
      installPhase = ''
        mkdir -p $out/$sitePackages $dist
        cp -r ${onnxruntime}/onnxruntime $out/$sitePackages/onnxruntime
      '';
      pythonImportsCheck = [ "onnxruntime" ];
      meta.platforms = lib.platforms.linux;
    }
  ) { onnxruntime = pkgs.onnxruntime; };
}
