pkgs = import torchsmithNixpkgs {
  # Named, because an import without it evaluates for whichever machine runs Nix.
  system = "@system@";
  #? if cuda
  config = {
    allowUnfree = true; # CUDA and cuDNN
    cudaSupport = true;
    #? if narrowed
    cudaCapabilities = [ "@capability@" ]; # MAGMA, NCCL and all else below torch for this GPU alone
    #? end
    #? if noPtx
    cudaForwardCompat = false; # and no PTX for newer ones
    #? end
  };
  #? end
  #? if backendConfig
  config = {
    #? each backendConfig
    @item@ = true;
    #? end
  };
  #? end
  overlays = [
    #? if packageSet
    # @backend@ below torch for this GPU alone, as far as nixpkgs does that.
    (final: prev: { @packageSet@ = prev.@packageSet@.@arch@; })
    #? end
    #? fix cuda-package-set
    # CUDA @cuda@ as the default toolkit, so that every dependency uses the same one.
    (final: prev: { cudaPackages = final.@cudaSet@; })
    #? end
    #? fix magma-cuda13

    # MAGMA 2.9.0 reads a device property that CUDA 13 dropped; a nixpkgs that has fixed it keeps its own.
    (final: prev: {
      magma = prev.magma.overrideAttrs (oldAttrs: {
        patches = (oldAttrs.patches or [ ]) ++ final.lib.optional
          (prev.magma.version == "2.9.0" && !(final.lib.any
            (patch: final.lib.hasInfix "@patch.clockrate.rev@" (toString (patch.urls or [ ])))
            (oldAttrs.patches or [ ])))
          (final.fetchpatch {
            name = "@patch.clockrate.name@";
            url = "@patch.clockrate.url@";
            hash = "@patch.clockrate.hash@";
          });
      });
    })
    #? end
    #? fix torch-source
    #? if cuda

    #? end
    # torch @torch@, newer than the pin's own.
    (final: prev: {
      @pythonPackages@ = prev.@pythonPackages@.override {
        overrides = pfinal: pprev: {
          torch = pprev.torch.overrideAttrs (oldAttrs: rec {
            version = "@torch@";
            src = prev.fetchFromGitHub {
              owner = "pytorch";
              repo = "pytorch";
              rev = "v${version}";
              hash = "@torchHash@";
              fetchSubmodules = true;
            };
            # The pin's patches are cut for its own version.
            patches = [ ];
          });
        };
      };
    })
    #? end
  ];
};

#? if gpuDotted
# @SM@: the one architecture that kernels are compiled for.
gpuArchSM = "@capability@";

#? end
#? if torchOnGpu
# @isaTitle@: for all C and C++ code; of torch's CUDA code nvcc's host compiler gets none of it.
#? else
# @isaTitle@: for all C and C++ code.
#? end
cpuFlags = @cpuFlags@;

# More compilers at once than this run a large builder out of memory.
maxJobs = @maxJobs@;
