# One Python package set: torch, its companions, and what stands around them.
{ lib, pkgs, python, release }:

pfinal:

let
  callPackage = lib.callPackageWith (pkgs // pfinal);
  module = pname: version: callPackage ({ buildPythonPackage }: buildPythonPackage { inherit pname version; }) { };
in
{
  inherit python callPackage;
  inherit (python) pythonVersion;
  buildPythonPackage = callPackage ./build-python-package.nix { };
  buildPythonApplication = pfinal.buildPythonPackage;
  toPythonModule = drv: drv;

  numpy = module "numpy" "2.3.4";
  pillow = module "pillow" "12.0.0";
  scipy = module "scipy" "1.16.3";
  setuptools = module "setuptools" "80.9.0";
  pybind11 = module "pybind11" "3.0.1";
  pyyaml = module "pyyaml" "6.0.3";
  sympy = module "sympy" "1.14.0";
  jinja2 = module "jinja2" "3.1.6";
  typing-extensions = module "typing-extensions" "4.15.0";
  filelock = module "filelock" "3.20.0";
  fsspec = module "fsspec" "2025.10.0";
  networkx = module "networkx" "3.5";
  requests = module "requests" "2.32.5";
  packaging = module "packaging" "25.0";
  six = module "six" "1.17.0";
  cmake = pkgs.cmake;
  ninja = pkgs.ninja;
  astunparse = module "astunparse" "1.6.3";

  triton = callPackage (
    { buildPythonPackage, config, cudaPackages, cudaSupport ? config.cudaSupport }:
    buildPythonPackage {
      pname = "triton";
      version = "3.5.0";
      passthru = { inherit cudaPackages; };
      buildInputs = lib.optionals cudaSupport [ cudaPackages.cuda_cudart cudaPackages.cuda_nvcc ];
    }
  ) { };
  triton-cuda = pfinal.triton.override { cudaSupport = true; };
  triton-no-cuda = pfinal.triton.override { cudaSupport = false; };

  torch = callPackage ./torch.nix { inherit release; };
  torchWithCuda = pfinal.torch.override { cudaSupport = true; };
  torchWithoutCuda = pfinal.torch.override { cudaSupport = false; };
  torchvision = callPackage ./torchvision.nix { inherit release; };
  torchaudio = callPackage (if release.structured or false then ./torchaudio-structured.nix else ./torchaudio.nix) { inherit release; };
  torchcodec = callPackage ({ buildPythonPackage, torch }: buildPythonPackage { pname = "torchcodec"; version = "0.9.0"; dependencies = [ torch ]; }) { };
  torchmix = callPackage ./torchmix.nix { };
  cudasort = callPackage ./cudasort.nix { };
}
// import ./stack.nix { inherit lib pkgs; } pfinal
