# The PyTorch nightly beside this file, built against CUDA @cuda@ of known revisions.
# It takes nothing from Flox, so any stability will do and `nix-build` works too.
#? unless selfContained
# CUDA_TOOLKIT_REPO=/path/to/build-cudatoolkit uses a local checkout instead (Flox evaluates impurely).
#? end

{ torchsmithNixpkgs ? null # a checkout or mirror in place of build-cudatoolkit's pin
}:

let
  #? unless selfContained
  # Where build-cudatoolkit lies; all four come from the workspace file.
  toolkitOwner = "@toolkit.owner@";
  toolkitRepo = "@toolkit.repo@";
  toolkitRev = "@toolkit.rev@";
  toolkitHash = "@toolkit.hash@";

  #? end
  #? if selfContained
  # The CUDA recipes lie beside this one.
  cudaToolkitRepo = ../..;
  #? else
  cudaToolkitRepo =
    let
      local = builtins.getEnv "CUDA_TOOLKIT_REPO";
    in
    if local != "" then
      /. + local
    else
      # Fetched while evaluating, because its recipes are imported below.
      builtins.fetchTarball {
        url = "https://github.com/${toolkitOwner}/${toolkitRepo}/archive/${toolkitRev}.tar.gz";
        sha256 = toolkitHash;
      };
  #? end

  fromToolkit =
    name:
    import (cudaToolkitRepo + "/.flox/pkgs/${name}.nix") (
      { torchsmithSystem = "@system@"; }
      // (if torchsmithNixpkgs == null then { } else { inherit torchsmithNixpkgs; })
    );

  # Compiler, Python and MAGMA come from the same nixpkgs as the CUDA packages, so their C libraries agree.
  pkgs = (fromToolkit "cudatoolkit-@cuda.slug@").torchsmithPkgs;

  cuda = pkgs.@cudaSet@.overrideScope (
    final: prev: {
      cudnn = fromToolkit "cudnn-@cuda.slug@";
      nccl = fromToolkit "nccl-@cuda.slug@";
      libcusparse_lt = fromToolkit "libcusparse_lt-@cuda.slug@";
    }
  );
in

(pkgs.callPackage ./pytorch-@nightlyCell@.nix {
  @cudaMajorSet@ = cuda;
  @cudaSet@ = cuda;
}).overrideAttrs
  (oldAttrs: {
    # The derivation stays that of the nightly recipe with these inputs; only the label differs.
    passthru = oldAttrs.passthru // {
      torchsmith = {
        variant = "pytorch-@cell@";
        line = "@line@";
      };
    };
  })
