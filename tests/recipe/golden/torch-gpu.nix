# torchsmith: format=1 variant=pytorch-python313-cuda13_0-sm120-avx512 line=2.10 content=sha256:7470cf4929a072edc1b57ad7a75fc3aad234aea8afe5ff64a9912d9fdcb81312
# PyTorch 2.10.0, Python 3.13: NVIDIA Blackwell (SM120) and AVX-512 CPUs, CUDA 13.0.

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
in

# A package set whose CUDA is another one must not pass for 13.0.
assert pkgs.cudaPackages.cudaMajorMinorVersion == "13.0";

customPytorch
