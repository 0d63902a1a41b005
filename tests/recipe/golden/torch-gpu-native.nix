# torchsmith: format=1 variant=pytorch-python312-cuda13_0-sm90-avx2 line=2.9 content=sha256:3d7d91cc4e85175c005d301c86d98c64ff4636ab809545dc7292cfe54f273b00
# PyTorch 2.9.1, Python 3.12: NVIDIA Hopper (SM90) and AVX2 CPUs, CUDA 13.0.

# The one argument lets a mirror or a checkout replace the download; callPackage never fills it.
{ torchsmithNixpkgs ? builtins.fetchTarball {
    url = "https://github.com/NixOS/nixpkgs/archive/6a030d535719c5190187c4cec156f335e95e3211.tar.gz";
    # Without a hash Nix takes what the server sends: torchsmith line update 2.9 --rev 6a030d5 records it.
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
      cudaCapabilities = [ "9.0" ]; # MAGMA, NCCL and all else below torch for this GPU alone
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
    ];
  };

  # SM90: the one architecture that kernels are compiled for.
  gpuArchSM = "9.0";

  # AVX2: for all C and C++ code; of torch's CUDA code nvcc's host compiler gets none of it.
  cpuFlags = [
    "-mavx2"
    "-mfma"
    "-mf16c"
  ];

  # More compilers at once than this run a large builder out of memory.
  maxJobs = 32;

  customPytorch =
    (pkgs.python312Packages.torch.override {
      cudaSupport = true;
      gpuTargets = [ gpuArchSM ];
    }).overrideAttrs (oldAttrs: {
      pname = "pytorch29-python312-cuda13_0-sm90-avx2";

      # Nothing compiles by these: nixpkgs' torch skips CMake's configure phase, and preConfigure says the same in ways
      # that setup.py heeds. They are what maintainers' checks look for, and without them every torch compiles again.
      cmakeFlags = (oldAttrs.cmakeFlags or [ ]) ++ [
        "-DCMAKE_CUDA_FLAGS=-I/build/cccl-compat"
        "-DCUDA_VERSION=13.0"
      ];

      # Reasons are outside the strings: a reworded one inside would compile torch again.
      preConfigure = (oldAttrs.preConfigure or "")
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
          variant = "pytorch-python312-cuda13_0-sm90-avx2";
          line = "2.9";
        };
      };

      meta = oldAttrs.meta // {
        description = "PyTorch 2.9.1 with CUDA 13.0 for NVIDIA Hopper (SM90) and AVX2 CPUs";
        longDescription = ''
          PyTorch 2.9.1 compiled for one kind of machine:
          - GPU: SM90, that is H100, H200; no other architecture
          - Machines: x86_64 with such a GPU
          - CPU: x86-64 with avx, avx2, f16c, fma, popcnt, sse4_2 (first in Haswell, Excavator, Zen); a lesser CPU stops with an illegal instruction
          - CUDA: 13.0, which needs an NVIDIA driver of version 580 or newer
          - Linear algebra: cuBLAS and MAGMA on the GPU, OpenBLAS on the CPU
          - Python: 3.12
        '';
        broken = false; # the pin objects to CUDA 13 alone, which the fixes above answer
        platforms = [ "x86_64-linux" ];
      };
    });

  # ---- end of torch ----
in

# A package set whose CUDA is another one must not pass for 13.0.
assert pkgs.cudaPackages.cudaMajorMinorVersion == "13.0";

customPytorch
