# ---- torch: the same bytes in every recipe of this cell, so that all of them share one torch build ----

#? include pkgs.nix

customPytorch =
  (pkgs.@pythonPackages@.torch.override {
    #? if cuda
    cudaSupport = true;
    gpuTargets = [ gpuArchSM ];
    #? else
    cudaSupport = false;
    #? end
  }).overrideAttrs (oldAttrs: {
    pname = "@prefix@-@cell@";
    #? if cuda

    # Nothing compiles by these: nixpkgs' torch skips CMake's configure phase, and preConfigure says the same in ways
    # that setup.py heeds. They are what maintainers' checks look for, and without them every torch compiles again.
    cmakeFlags = (oldAttrs.cmakeFlags or [ ]) ++ [
      #? fix torch-version
      "-DTORCH_BUILD_VERSION=@torch@"
      #? end
      #? fix cccl-links
      "-DCMAKE_CUDA_FLAGS=-I/build/cccl-compat"
      #? end
      "-DCUDA_VERSION=@cuda@"
    ];
    #? end
    #? fix find-cuda-toolkit-stub

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
    #? end

    #? if ccache
    # Flags that ccache does not see, the compiler wrapper's and nvcc's: unhashed, an object of other flags would pass
    # for this one. Store hashes are left out, so that libraries which differ by their GPU alone share their users.
    # preBuild configures: CMake asks compilers which folders they search, and out of a cache would get no answer.
    preBuild = ''
      export CCACHE_DISABLE=1
      echo "$NIX_CFLAGS_COMPILE $NIX_HARDENING_ENABLE ''${NVCC_PREPEND_FLAGS:-} ''${NVCC_APPEND_FLAGS:-}" \
        | sed -E 's,/nix/store/[a-z0-9]{32}-,,g; s/-frandom-seed=[^ ]*//g' > "$NIX_BUILD_TOP/ccache-environment"
    '' + (oldAttrs.preBuild or "") + ''
      unset CCACHE_DISABLE
    '';

    #? end
    # Reasons are outside the strings: a reworded one inside would compile torch again.
    preConfigure = (oldAttrs.preConfigure or "")
      #? fix torch-version
      # setup.py prefers the variable, which may hold the pin's version, and falls back to the file.
      + ''
        export PYTORCH_BUILD_VERSION=${oldAttrs.version}
        echo "${oldAttrs.version}" > version.txt
      ''
      #? end
      #? fix cccl-links
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
      #? end
      #? if torchOff
      # These libraries run newer instructions outside PyTorch's own dispatch. Exported, because nixpkgs' torch keeps
      # some of these variables among its attributes and some in `env`, and a variable must not be in both.
      + ''
        #? each torchOff
        export @item@=0
        #? end
      ''
      #? end
      #? include xnnpack.nix
      #? include avx2-kernels.nix
      #? if ccache
      # The folder is outside the build: objects for one GPU are the same whatever the CPU's instruction set.
      + ''
        export PATH="${pkgs.ccache}/bin:$PATH"
        export CCACHE_DIR="@ccache@" CCACHE_BASEDIR="$NIX_BUILD_TOP" CCACHE_COMPILERCHECK=content CCACHE_UMASK=007
        export CCACHE_EXTRAFILES="$NIX_BUILD_TOP/ccache-environment"
        export CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache
        export CMAKE_CUDA_COMPILER_LAUNCHER=ccache
      ''
      #? end
      # CMake takes its first C and C++ flags from here; the flags of dispatched kernels come after them.
      #? if recordFlag
      # @cxxMark@ changes no code: recorded in a library, it proves that these flags reached a unit.
      + ''
        export CFLAGS="${toString cpuFlags} @cxxMark@ ''${CFLAGS:-}"
        export CXXFLAGS="${toString cpuFlags} @cxxMark@ ''${CXXFLAGS:-}"
      ''
      #? include record-flags.nix
      #? else
      + ''
        export CFLAGS="${toString cpuFlags} ''${CFLAGS:-}"
        export CXXFLAGS="${toString cpuFlags} ''${CXXFLAGS:-}"
      ''
      #? end
      #? if hostMark
      # Marks the host half of a CUDA unit, which gets none of CXXFLAGS.
      #? if nvccFlags
      # CUDA 13's GPU code is compressed for size, as in PyTorch's wheels.
      #? end
      + ''
        export NVCC_APPEND_FLAGS="''${NVCC_APPEND_FLAGS:-} -Xcompiler=@hostMark@@nvccFlags@"
      ''
      #? end
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
        #? if cuda
        echo "GPU Target: ${gpuArchSM} (TORCH_CUDA_ARCH_LIST=$TORCH_CUDA_ARCH_LIST)"
        #? else
        #? if accelerator
        echo "GPU Target: @arch@"
        #? else
        echo "GPU Target: None (CPU-only build)"
        #? end
        #? end
        echo "CPU Flags: ${toString cpuFlags}"
        #? if cuda
        echo "CUDA: ${pkgs.cudaPackages.cudaMajorMinorVersion}"
        echo "MAGMA: Enabled"
        #? else
        echo "CUDA: Disabled"
        #? end
        #? if accelerator
        echo "@toolkit@: Enabled"
        #? end
        echo "Version: $PYTORCH_BUILD_VERSION"
        echo "Parallel Jobs: $NIX_BUILD_CORES"
        echo "========================================="
      '';

    passthru = oldAttrs.passthru // {
      #? if cuda
      # torchvision and torchaudio take their architecture list from here, not from gpuTargets.
      cudaCapabilities = [ gpuArchSM ];
      #? end
      torchsmith = {
        variant = "@torchStem@-@cell@";
        line = "@line@";
      };
    };

    meta = oldAttrs.meta // {
      #? if toolkit
      description = "PyTorch @torch@ with @toolkit@ for @gpuTitle@ and @isaTitle@ CPUs";
      #? else
      description = "PyTorch @torch@ without CUDA for @isaTitle@ CPUs";
      #? end
      longDescription = ''
        PyTorch @torch@ compiled for one kind of machine:
        #? if cuda
        - GPU: @SM@, that is @gpuParts@; @otherGpus@
        - Machines: @machines@
        #? else
        #? if accelerator
        - GPU: @arch@, that is @gpuParts@; @otherGpus@
        - @toolkit@, which needs @driver@
        #? else
        - GPU: none; nothing of CUDA is built or linked
        #? end
        #? end
        #? if anyCpu
        - CPU: @cpuNeeds@
        #? else
        - CPU: @cpuNeeds@; a lesser CPU stops with an illegal instruction
        #? end
        #? if cuda
        - CUDA: @cuda@, which needs an NVIDIA driver of version @driver@ or newer
        - Linear algebra: cuBLAS and MAGMA on the GPU, OpenBLAS on the CPU
        #? else
        - Linear algebra: OpenBLAS
        #? end
        - Python: @python@
      '';
      #? fix torch-source
      changelog = "https://github.com/pytorch/pytorch/releases/tag/v@torch@";
      #? end
      #? fix not-broken
      broken = false; # the pin objects to CUDA 13 alone, which the fixes above answer
      #? end
      platforms = [ "@system@" ];
    };
  });

# ---- end of torch ----
