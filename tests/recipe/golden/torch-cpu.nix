# torchsmith: format=1 variant=pytorch-python313-cpu-avx2 line=2.10 content=sha256:31563d7e50482167eb0f07f6388bd45e141935bb54cd7fab32262e63b24c07fd
# PyTorch 2.10.0, Python 3.13: AVX2 CPUs, no GPU.

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
    overlays = [
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

  # AVX2: for all C and C++ code.
  cpuFlags = [
    "-mavx2"
    "-mfma"
    "-mf16c"
  ];

  # More compilers at once than this run a large builder out of memory.
  maxJobs = 32;

  customPytorch =
    (pkgs.python3Packages.torch.override {
      cudaSupport = false;
    }).overrideAttrs (oldAttrs: {
      pname = "pytorch210-python313-cpu-avx2";

      # Reasons are outside the strings: a reworded one inside would compile torch again.
      preConfigure = (oldAttrs.preConfigure or "")
        # setup.py prefers the variable, which may hold the pin's version, and falls back to the file.
        + ''
          export PYTORCH_BUILD_VERSION=${oldAttrs.version}
          echo "${oldAttrs.version}" > version.txt
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
          echo "GPU Target: None (CPU-only build)"
          echo "CPU Flags: ${toString cpuFlags}"
          echo "CUDA: Disabled"
          echo "Version: $PYTORCH_BUILD_VERSION"
          echo "Parallel Jobs: $NIX_BUILD_CORES"
          echo "========================================="
        '';

      passthru = oldAttrs.passthru // {
        torchsmith = {
          variant = "pytorch-python313-cpu-avx2";
          line = "2.10";
        };
      };

      meta = oldAttrs.meta // {
        description = "PyTorch 2.10.0 without CUDA for AVX2 CPUs";
        longDescription = ''
          PyTorch 2.10.0 compiled for one kind of machine:
          - GPU: none; nothing of CUDA is built or linked
          - CPU: x86-64 with avx, avx2, f16c, fma, popcnt, sse4_2 (first in Haswell, Excavator, Zen); a lesser CPU stops with an illegal instruction
          - Linear algebra: OpenBLAS
          - Python: 3.13
        '';
        changelog = "https://github.com/pytorch/pytorch/releases/tag/v2.10.0";
        platforms = [ "x86_64-linux" ];
      };
    });

  # ---- end of torch ----
in

customPytorch
