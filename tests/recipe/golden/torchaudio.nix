# torchsmith: format=1 variant=torchaudio-python313-cuda13_0-sm120-avx512 line=2.10 content=sha256:8498f5c760632fcfc315c7b94aa7ad26c005041a86e4111a19e4013031b2f75e
# TorchAudio 2.10.0 for PyTorch 2.10.0, Python 3.13: NVIDIA Blackwell (SM120) and AVX-512 CPUs, CUDA 13.0.

# The one argument lets a mirror or a checkout replace the download; callPackage never fills it.
{ torchsmithNixpkgs ? builtins.fetchTarball {
    url = "https://github.com/NixOS/nixpkgs/archive/6a030d535719c5190187c4cec156f335e95e3211.tar.gz";
    # Without a hash Nix takes what the server sends: torchsmith line update 2.10 --rev 6a030d5 records it.
  }
}:

let
  # ---- torch: the same bytes in every recipe of this cell, so that all of them share one torch build ----

  pkgs = import torchsmithNixpkgs {
    # Named, because an import without it evaluates for whichever machine runs Nix.
    system = "x86_64-linux";
    config = {
      allowUnfree = true; # CUDA and cuDNN
      cudaSupport = true;
      cudaCapabilities = [ "12.0" ]; # MAGMA, NCCL and all else below torch for this GPU alone
      cudaForwardCompat = false; # and no PTX for newer ones
    };
    overlays = [
      # CUDA 13.0 as the default toolkit, so that every dependency uses the same one.
      (final: prev: { cudaPackages = final.cudaPackages_13_0; })

      # MAGMA 2.9.0 reads a device property that CUDA 13 dropped; a nixpkgs that has fixed it keeps its own.
      (final: prev: {
        magma = prev.magma.overrideAttrs (oldAttrs: {
          patches = (oldAttrs.patches or [ ]) ++ final.lib.optional
            (prev.magma.version == "2.9.0" && !(final.lib.any
              (patch: final.lib.hasInfix "235aefb7b064954fce09d035c69907ba8a87cbcd" (toString (patch.urls or [ ])))
              (oldAttrs.patches or [ ])))
            (final.fetchpatch {
              name = "cuda-13.0-clockrate-fix.patch";
              url = "https://github.com/icl-utk-edu/magma/commit/235aefb7b064954fce09d035c69907ba8a87cbcd.patch";
              hash = "sha256-i9InbxD5HtfonB/GyF9nQhFmok3jZ73RxGcIciGBGvU=";
            });
        });
      })

      # torch 2.10.0, newer than the pin's own.
      (final: prev: {
        python3Packages = prev.python3Packages.override {
          overrides = pfinal: pprev: {
            torch = pprev.torch.overrideAttrs (oldAttrs: rec {
              version = "2.10.0";
              src = prev.fetchFromGitHub {
                owner = "pytorch";
                repo = "pytorch";
                rev = "v${version}";
                hash = "sha256-RKiZLHBCneMtZKRgTEuW1K7+Jpi+tx11BMXuS1jC1xQ=";
                fetchSubmodules = true;
              };
              # The pin's patches are cut for its own version.
              patches = [ ];
            });
          };
        };
      })
    ];
  };

  # SM120: the one architecture that kernels are compiled for.
  gpuArchSM = "12.0";

  # AVX-512: for all C and C++ code; of torch's CUDA code nvcc's host compiler gets none of it.
  cpuFlags = [
    "-mavx512f"
    "-mavx512dq"
    "-mavx512vl"
    "-mavx512bw"
    "-mfma"
  ];

  # More compilers at once than this run a large builder out of memory.
  maxJobs = 32;

  customPytorch =
    (pkgs.python3Packages.torch.override {
      cudaSupport = true;
      gpuTargets = [ gpuArchSM ];
    }).overrideAttrs (oldAttrs: {
      pname = "pytorch210-python313-cuda13_0-sm120-avx512";

      # Nothing compiles by these: nixpkgs' torch skips CMake's configure phase, and preConfigure says the same in ways
      # that setup.py heeds. They are what maintainers' checks look for, and without them every torch compiles again.
      cmakeFlags = (oldAttrs.cmakeFlags or [ ]) ++ [
        "-DTORCH_BUILD_VERSION=2.10.0"
        "-DCMAKE_CUDA_FLAGS=-I/build/cccl-compat"
        "-DCUDA_VERSION=13.0"
      ];

      # nixpkgs deletes this module but PyTorch still installs it; the full path keeps the stub from finding itself.
      # CMake looks for CUPTI beside nvcc alone, nixpkgs keeps it apart: unnamed, torch would have no GPU profiler.
      postPatch = (oldAttrs.postPatch or "") + ''
        mkdir -p cmake/Modules
        cat > cmake/Modules/FindCUDAToolkit.cmake <<'CMAKE'
        set(CUDAToolkit_CUPTI_INCLUDE_DIR "${pkgs.lib.getOutput "include" pkgs.cudaPackages.cuda_cupti}/include" CACHE PATH "")
        set(CUDA_cupti_LIBRARY "${pkgs.lib.getLib pkgs.cudaPackages.cuda_cupti}/lib/libcupti.so" CACHE FILEPATH "")
        include("''${CMAKE_ROOT}/Modules/FindCUDAToolkit.cmake")
        CMAKE
      '';

      # Reasons are outside the strings: a reworded one inside would compile torch again.
      preConfigure = (oldAttrs.preConfigure or "")
        # setup.py prefers the variable, which may hold the pin's version, and falls back to the file.
        + ''
          export PYTORCH_BUILD_VERSION=${oldAttrs.version}
          echo "${oldAttrs.version}" > version.txt
        ''
        # CUTLASS asks CUDA 13 for <cccl/cuda/...>, which nixpkgs keeps one level higher.
        + ''
          mkdir -p "$NIX_BUILD_TOP/cccl-compat/cccl"
          for part in cuda cub thrust nv; do
            ln -sfn "${pkgs.cudaPackages.cccl or pkgs.cudaPackages.cuda_cccl}/include/$part" "$NIX_BUILD_TOP/cccl-compat/cccl/$part"
          done
        ''
        # setup.py hands variables named CMAKE_* to CMake; the build directory is not /build on every machine.
        + ''
          export CMAKE_CUDA_FLAGS="-I$NIX_BUILD_TOP/cccl-compat"
        ''
        # XNNPACK, part of torch before 2.14, also compiles micro-kernels that only its tests and benchmarks link: 3,303 units on
        # x86, 2,355 on ARM. Their library is switched off. Its name goes too: CMake would stop at an option that gcc 14 gets for it.
        + ''
          sed -i -e '/set(XNNPACK_BUILD_TESTS OFF/a set(XNNPACK_BUILD_ALL_MICROKERNELS OFF CACHE BOOL "")' \
            -e 's/ microkernels-all//' cmake/Dependencies.cmake
        ''
        # On CPUs with AVX-512 torch runs the AVX2 form of most of its dispatched kernels. The cell's flags alone would let GCC use
        # AVX-512 in them too, which makes some of them 10 to 20 % slower.
        + ''
          sed -i 's/-mavx2 -mfma/-mno-avx512f &/' cmake/Codegen.cmake
        ''
        # CMake takes its first C and C++ flags from here; the flags of dispatched kernels come after them.
        # -fmessage-length=10001 changes no code: recorded in a library, it proves that these flags reached a unit.
        + ''
          export CFLAGS="${toString cpuFlags} -fmessage-length=10001 ''${CFLAGS:-}"
          export CXXFLAGS="${toString cpuFlags} -fmessage-length=10001 ''${CXXFLAGS:-}"
        ''
        # Added by the compiler wrapper to every call, so a unit that the flags did not reach records that too.
        + ''
          export NIX_CFLAGS_COMPILE="''${NIX_CFLAGS_COMPILE:-} -frecord-gcc-switches"
        ''
        # Marks the host half of a CUDA unit, which gets none of CXXFLAGS.
        # CUDA 13's GPU code is compressed for size, as in PyTorch's wheels.
        + ''
          export NVCC_APPEND_FLAGS="''${NVCC_APPEND_FLAGS:-} -Xcompiler=-fmessage-length=10002 -compress-mode=size"
        ''
        # preBuild sets MAX_JOBS from NIX_BUILD_CORES, so a limit holds only here.
        + ''
          if [ "$NIX_BUILD_CORES" -gt ${toString maxJobs} ]; then
            export NIX_BUILD_CORES=${toString maxJobs}
          fi
        ''
        # Nix gives builders a terminal, on which ninja writes each step over the last: hardly one would reach the log.
        + ''
          export TERM=dumb
        ''
        # For a log read by itself. Each value reaches the build above too, so that no two derivations differ by this alone.
        + ''
          echo "========================================="
          echo "PyTorch Build Configuration"
          echo "========================================="
          echo "GPU Target: ${gpuArchSM} (TORCH_CUDA_ARCH_LIST=$TORCH_CUDA_ARCH_LIST)"
          echo "CPU Flags: ${toString cpuFlags}"
          echo "CUDA: ${pkgs.cudaPackages.cudaMajorMinorVersion}"
          echo "MAGMA: Enabled"
          echo "Version: $PYTORCH_BUILD_VERSION"
          echo "Parallel Jobs: $NIX_BUILD_CORES"
          echo "========================================="
        '';

      passthru = oldAttrs.passthru // {
        # torchvision and torchaudio take their architecture list from here, not from gpuTargets.
        cudaCapabilities = [ gpuArchSM ];
        torchsmith = {
          variant = "pytorch-python313-cuda13_0-sm120-avx512";
          line = "2.10";
        };
      };

      meta = oldAttrs.meta // {
        description = "PyTorch 2.10.0 with CUDA 13.0 for NVIDIA Blackwell (SM120) and AVX-512 CPUs";
        longDescription = ''
          PyTorch 2.10.0 compiled for one kind of machine:
          - GPU: SM120, that is RTX 50 series, RTX PRO Blackwell; no other architecture
          - Machines: x86_64 with such a GPU
          - CPU: x86-64 with avx, avx2, avx512bw, avx512dq, avx512f, avx512vl, fma, popcnt, sse4_2 (first in Skylake-X, Skylake-SP, Zen 4); a lesser CPU stops with an illegal instruction
          - CUDA: 13.0, which needs an NVIDIA driver of version 580 or newer
          - Linear algebra: cuBLAS and MAGMA on the GPU, OpenBLAS on the CPU
          - Python: 3.13
        '';
        changelog = "https://github.com/pytorch/pytorch/releases/tag/v2.10.0";
        broken = false; # the pin objects to CUDA 13 alone, which the fixes above answer
        platforms = [ "x86_64-linux" ];
      };
    });

  # ---- end of torch ----

  # OpenCV 4.12.0 comes in through ffmpeg's frei0r plugins and needs two later commits for CUDA 13; a nixpkgs that
  # has them keeps its own.
  opencvMended = pkgs.opencv.version != "4.12.0" || pkgs.lib.any
    (patch: pkgs.lib.hasInfix "f0888a10e8266b2202d930c6974433a421e6f9a7" (toString (patch.urls or [ ])))
    (pkgs.opencv.patches or [ ]);
  opencvForCuda13 = if opencvMended then pkgs.opencv else pkgs.opencv.overrideAttrs (oldAttrs: {
    patches = (oldAttrs.patches or [ ]) ++ [
      (pkgs.fetchpatch {
        name = "opencv-cuda-13-device-properties.patch";
        url = "https://github.com/opencv/opencv/commit/f0888a10e8266b2202d930c6974433a421e6f9a7.patch";
        hash = "sha256-zeDA8K7k6Sff5Xw/9XmqbCg/dhj9iu095rXuZTdj8PY=";
      })
    ];
    # nixpkgs unpacks only modules/ of opencv_contrib, hence two leading folders to strip.
    postPatch = (oldAttrs.postPatch or "") + ''
      patch -p2 -d opencv_contrib < ${
        pkgs.fetchpatch {
          name = "opencv-contrib-cuda-13-thrust.patch";
          url = "https://github.com/opencv/opencv_contrib/commit/9a9b173cd178e7c07a98896a009c2a2021a6b247.patch";
          hash = "sha256-W3eBv7HnoUrNBupXAykv5UsHcYG/o9P55VIddRYWrF8=";
        }
      }
    '';
  });

  ffmpegForCuda13 = pkgs.ffmpeg_6-full.override {
    frei0r = pkgs.frei0r.override { opencv = opencvForCuda13; };
  };

  # Newer releases in nixpkgs take no ffmpeg, and need no fix.
  withFfmpegForCuda13 = package: package.override (arguments:
    pkgs.lib.optionalAttrs (arguments ? ffmpeg_6-full) { ffmpeg_6-full = ffmpegForCuda13; });

  # One torch below everything here, also where nixpkgs brings it in by another package; what else the matrix
  # builds for this cell is what its own recipes build.
  pythonPackages = pkgs.python3Packages.overrideScope (pfinal: pprev: {
    torch = customPytorch;

    torchaudio =
      (withFfmpegForCuda13 pprev.torchaudio).overrideAttrs (oldAttrs: {
        pname = "torchaudio-python313-cuda13_0-sm120-avx512";
        version = customPytorch.version; # the two are released together
        src = pkgs.fetchFromGitHub {
          owner = "pytorch";
          repo = "audio";
          rev = "v2.10.0";
          hash = "sha256-b1sjHVFXdNFDbdtXWSM2KisSRE/8IbzJI4rvzYQ4UMg=";
        };

        # The dev output alone would be propagated otherwise, and `import torch` would fail.
        propagatedBuildInputs = (oldAttrs.propagatedBuildInputs or [ ]) ++ [ customPytorch.out ];

        preConfigure = (oldAttrs.preConfigure or "")
          + ''
            export CFLAGS="${toString cpuFlags} -fmessage-length=10001 ''${CFLAGS:-}"
            export CXXFLAGS="${toString cpuFlags} -fmessage-length=10001 ''${CXXFLAGS:-}"
          ''
          # Added by the compiler wrapper to every call, so a unit that the flags did not reach records that too.
          + ''
            export NIX_CFLAGS_COMPILE="''${NIX_CFLAGS_COMPILE:-} -frecord-gcc-switches"
          ''
          # nvcc hands its host compiler none of these by itself.
          + ''
            export NVCC_APPEND_FLAGS="''${NVCC_APPEND_FLAGS:-} -Xcompiler=${pkgs.lib.concatStringsSep "," cpuFlags},-fmessage-length=10002 -compress-mode=size"
          ''
          # torch's extension builder reads the first variable, CMake the second.
          + ''
            if [ "$NIX_BUILD_CORES" -gt ${toString maxJobs} ]; then
              export NIX_BUILD_CORES=${toString maxJobs}
            fi
            export MAX_JOBS=$NIX_BUILD_CORES CMAKE_BUILD_PARALLEL_LEVEL=$NIX_BUILD_CORES
          '';

        passthru = oldAttrs.passthru // {
          torch = customPytorch;
          # Computed before propagatedBuildInputs was extended; interpreters are composed from it.
          requiredPythonModules = oldAttrs.passthru.requiredPythonModules ++ [ customPytorch.out ];
          torchsmith = {
            variant = "torchaudio-python313-cuda13_0-sm120-avx512";
            line = "2.10";
          };
        };

        meta = oldAttrs.meta // {
          description = "TorchAudio 2.10.0 for PyTorch 2.10.0 with CUDA 13.0, NVIDIA Blackwell (SM120) and AVX-512 CPUs";
          longDescription = ''
            TorchAudio 2.10.0, the release that belongs to PyTorch 2.10.0, with that PyTorch as its dependency:
            - GPU: SM120, that is RTX 50 series, RTX PRO Blackwell; no other architecture
            - Machines: x86_64 with such a GPU
            - CUDA: 13.0, which needs an NVIDIA driver of version 580 or newer
            - CPU: x86-64 with avx, avx2, avx512bw, avx512dq, avx512f, avx512vl, fma, popcnt, sse4_2 (first in Skylake-X, Skylake-SP, Zen 4); a lesser CPU stops with an illegal instruction
            - Python: 3.13
          '';
          changelog = "https://github.com/pytorch/audio/releases/tag/v2.10.0";
          platforms = [ "x86_64-linux" ];
        };
      });
  });
in

# A package set whose CUDA is another one must not pass for 13.0.
assert pkgs.cudaPackages.cudaMajorMinorVersion == "13.0";

pythonPackages.torchaudio
