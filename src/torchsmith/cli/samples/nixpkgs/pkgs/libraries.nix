# Libraries and tools below torch: small derivations with nixpkgs' names, arguments and dependencies.
{ lib }:

final:

let
  inherit (final) callPackage stdenv;

  # A package that holds nothing but its place in the graph.
  plain =
    pname: version: more:
    callPackage ({ stdenv }: stdenv.mkDerivation ({ inherit pname version; } // more)) { };
in
{
  runCommand = name: env: script: stdenv.mkDerivation (env // { inherit name; buildCommand = script; unpackPhase = ":"; installPhase = script; });
  writeText = name: text: derivation { inherit name text; inherit (stdenv) system; builder = "/bin/bash"; args = [ "-c" "printf %s \"$text\" > $out" ]; };
  writeShellScript = name: text: final.writeText name "#!/bin/bash\n${text}";
  symlinkJoin = { name, paths, postBuild ? "" }: stdenv.mkDerivation { inherit name paths postBuild; };

  mkShell = { packages ? [ ], ... }: stdenv.mkDerivation { name = "nix-shell"; nativeBuildInputs = packages; installPhase = "mkdir $out"; };

  # As nixpkgs has it: the result is a program that writes an archive for `docker load`; here with one layer.
  dockerTools.streamLayeredImage =
    { name, tag, config }:
    stdenv.mkDerivation {
      name = "stream-${name}";
      about = final.writeText "${name}-config.json" (builtins.toJSON { inherit config; architecture = lib.head (lib.splitString "-" stdenv.system); os = "linux"; });
      exportReferencesGraph = [ "graph" (final.writeText "${name}-contents" (lib.concatStringsSep "\n" (config.Cmd or [ ]))) ];
      image = "${name}:${tag}";
      program = ./stream-image.py;
      installPhase = ''
        grep ^/ "$NIX_BUILD_TOP/graph" | sort -u > paths
        printf '#!/bin/bash\nexec python3 %s %s %s %s\n' "$program" "$image" "$about" "$(tr '\n' ' ' < paths)" > $out
        chmod +x $out
      '';
      fixupPhase = ":"; # the result is a file
    };

  cmake = plain "cmake" "4.1.2" { };
  ninja = plain "ninja" "1.13.1" { };
  which = plain "which" "2.23" { };
  pkg-config = plain "pkg-config" "0.29.2" { };
  git = plain "git" "2.51.2" { };
  gcc = plain "gcc" "14.3.0" { };
  patchelf = plain "patchelf" "0.15.2" { };
  addDriverRunpath = plain "add-driver-runpath" "1" { passthru.driverLink = "/run/opengl-driver"; };
  autoAddDriverRunpath = plain "auto-add-driver-runpath" "1" { };
  removeReferencesTo = plain "remove-references-to" "1" { };

  libpng = plain "libpng" "1.6.50" { outputs = [ "out" "dev" ]; };
  libjpeg_turbo = plain "libjpeg-turbo" "3.1.2" { outputs = [ "out" "dev" ]; };
  numactl = plain "numactl" "2.0.18" { };
  ccache = plain "ccache" "4.12" { };
  openssl = plain "openssl" "3.6.0" { outputs = [ "out" "dev" ]; meta.license = lib.licenses.asl20; };
  sox = plain "sox" "14.4.2" { };
  zlib = plain "zlib" "1.3.1" { };
  libuv = plain "libuv" "1.51.0" { };
  protobuf = plain "protobuf" "32.1" { };
  mpi = plain "openmpi" "5.0.8" { };

  openblas = callPackage (
    { stdenv, blas64 ? false, singleThreaded ? false }:
    stdenv.mkDerivation {
      pname = "openblas";
      version = "0.3.30";
      meta.license = lib.licenses.bsd3;
      inherit blas64 singleThreaded;
      passthru = { inherit blas64; };
    }
  ) { };
  mkl = plain "mkl" "2023.1.0.46342" { meta.license = lib.licenses.issl; meta.platforms = [ "x86_64-linux" ]; };
  blas = callPackage ({ stdenv, openblas, blasProvider ? openblas }: stdenv.mkDerivation { pname = "blas"; version = "3"; passthru.provider = blasProvider; provider = blasProvider; }) { };
  lapack = plain "lapack" "3" { };

  magma = callPackage (
    { stdenv, config, blas, cudaPackages, cudaSupport ? config.cudaSupport, rocmSupport ? false, static ? false }:
    stdenv.mkDerivation {
      pname = "magma";
      version = "2.9.0";
      inherit static;
      cmakeFlags = lib.optionals cudaSupport [ (lib.cmakeFeature "CMAKE_CUDA_ARCHITECTURES" cudaPackages.flags.cmakeCudaArchitecturesString) ];
      buildInputs = [ blas ] ++ lib.optionals cudaSupport [ cudaPackages.cuda_cudart cudaPackages.libcublas cudaPackages.libcusparse ];
      nativeBuildInputs = lib.optionals cudaSupport [ cudaPackages.cuda_nvcc ];
      meta.broken = cudaSupport && rocmSupport;
      passthru = { inherit cudaPackages cudaSupport; };
    }
  ) { };
  magma-cuda = final.magma.override { cudaSupport = true; rocmSupport = false; };
  magma-cuda-static = final.magma-cuda.override { static = true; };
  magma-hip = final.magma.override { cudaSupport = false; rocmSupport = true; };

  opencv4 = callPackage (
    { stdenv, config, cudaPackages, openblas, enableCuda ? config.cudaSupport }:
    stdenv.mkDerivation {
      pname = "opencv";
      version = "4.12.0";
      outputs = [ "out" "cxxdev" "package_tests" ];
      postUnpack = "mkdir opencv_contrib";
      cmakeFlags = lib.optionals enableCuda [ (lib.cmakeFeature "CUDA_ARCH_BIN" cudaPackages.flags.cmakeCudaArchitecturesString) ];
      buildInputs = [ openblas ] ++ lib.optionals enableCuda [ cudaPackages.cuda_cudart cudaPackages.libcublas cudaPackages.libnpp cudaPackages.libcufft ];
      nativeBuildInputs = lib.optionals enableCuda [ cudaPackages.cuda_nvcc ];
      passthru = { inherit cudaPackages; };
    }
  ) { };
  opencv4WithoutCuda = final.opencv4.override { enableCuda = false; };
  opencv = final.opencv4;
  frei0r = callPackage ({ stdenv, opencv }: stdenv.mkDerivation { pname = "frei0r-plugins"; version = "2.4.1"; buildInputs = [ opencv ]; }) { };

  ffmpeg_6 = final.ffmpeg_6-full.override { withFrei0r = false; };
  ffmpeg_6-full = callPackage (
    { stdenv, frei0r, withFrei0r ? true }:
    stdenv.mkDerivation {
      pname = "ffmpeg-full";
      version = "6.1.3";
      outputs = [ "bin" "lib" "dev" "out" ];
      buildInputs = lib.optionals withFrei0r [ frei0r ];
    }
  ) { };
  ffmpeg = final.ffmpeg_6;

  # Its Python package takes the library from here.
  onnxruntime = callPackage (
    { stdenv, config, source, cudaPackages, python3Packages, cudaSupport ? config.cudaSupport }:
    (if cudaSupport then cudaPackages.backendStdenv else stdenv).mkDerivation {
      pname = "onnxruntime";
      version = "1.22.2";
      src = source "example" "kernels";
      module = "onnxruntime";
      library = "libonnxruntime_providers_cuda.so";
      listName = "CMAKE_CUDA_ARCHITECTURES";
      cmakeFlags = lib.optionals cudaSupport [ "-DCMAKE_CUDA_ARCHITECTURES:STRING=75;80;90" ];
      nativeBuildInputs = lib.optionals cudaSupport [ cudaPackages.cuda_nvcc ];
      buildPhase = "runHook preBuild; PYTHONPATH=${python3Packages.torch.src}/torch/utils /usr/bin/python3 setup.py; runHook postBuild";
      installPhase = "mkdir -p $out; cp -r build/onnxruntime $out/onnxruntime";
      meta.platforms = lib.platforms.linux;
    }
  ) { };
}
