# The PyTorch nightly beside this file, built against CUDA @cuda@ of known revisions.
# It takes nothing from Flox, so any stability will do and `nix-build` works too.
#? unless selfContained
# CUDA_TOOLKIT_REPO=/path/to/build-cudatoolkit uses a local checkout instead (Flox evaluates impurely).
#? end

{ torchsmithNixpkgs ? null # a checkout or mirror in place of build-cudatoolkit's pin
}:

let
  arguments = {
    torchsmithSystem = "@system@";
  }
  // (if torchsmithNixpkgs == null then { } else { inherit torchsmithNixpkgs; });

  #? if selfContained
  # The CUDA recipes are beside this one.
  toolkit = {
    cudatoolkit = import ./cudatoolkit-@cuda.slug@.nix arguments;
    cudnn = import ./cudnn-@cuda.slug@.nix arguments;
    nccl = import ./nccl-@cuda.slug@.nix arguments;
    libcusparse_lt = import ./libcusparse_lt-@cuda.slug@.nix arguments;
  };
  #? else
  # Where build-cudatoolkit is; all four come from the workspace file.
  toolkitOwner = "@toolkit.owner@";
  toolkitRepo = "@toolkit.repo@";
  toolkitRev = "@toolkit.rev@";
  toolkitHash = "@toolkit.hash@";

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

  fromToolkit = name: import (cudaToolkitRepo + "/.flox/pkgs/${name}-@cuda.slug@.nix") arguments;
  toolkit = {
    cudatoolkit = fromToolkit "cudatoolkit";
    cudnn = fromToolkit "cudnn";
    nccl = fromToolkit "nccl";
    libcusparse_lt = fromToolkit "libcusparse_lt";
  };
  #? end

  # Compiler, Python and MAGMA come from the same nixpkgs as the CUDA packages, so their C libraries agree.
  pkgs = toolkit.cudatoolkit.torchsmithPkgs;

  cuda = pkgs.@cudaSet@.overrideScope (final: prev: { inherit (toolkit) cudnn nccl libcusparse_lt; });
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
