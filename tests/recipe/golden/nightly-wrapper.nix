# torchsmith: format=1 variant=pytorch-python313-cuda13_0-sm121-armv9-nightly-wrapper line=nightly content=sha256:eb2fe51eb8f2baebdd729ca98db8e2c0cf95fa33f73082d9b324eae4f08a2e32
# The PyTorch nightly beside this file, built against CUDA 13.0 of known revisions.
# It takes nothing from Flox, so any stability will do and `nix-build` works too.
# CUDA_TOOLKIT_REPO=/path/to/build-cudatoolkit uses a local checkout instead (Flox evaluates impurely).

{ torchsmithNixpkgs ? null # a checkout or mirror in place of build-cudatoolkit's pin
}:

let
  arguments = {
    torchsmithSystem = "aarch64-linux";
  }
  // (if torchsmithNixpkgs == null then { } else { inherit torchsmithNixpkgs; });

  # Where build-cudatoolkit is; all four come from the workspace file.
  toolkitOwner = "someone";
  toolkitRepo = "build-cudatoolkit";
  toolkitRev = "fedcba9876543210fedcba9876543210fedcba98";
  toolkitHash = "";

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

  fromToolkit = name: import (cudaToolkitRepo + "/.flox/pkgs/${name}-13_0.nix") arguments;
  toolkit = {
    cudatoolkit = fromToolkit "cudatoolkit";
    cudnn = fromToolkit "cudnn";
    nccl = fromToolkit "nccl";
    libcusparse_lt = fromToolkit "libcusparse_lt";
  };

  # Compiler, Python and MAGMA come from the same nixpkgs as the CUDA packages, so their C libraries agree.
  pkgs = toolkit.cudatoolkit.torchsmithPkgs;

  cuda = pkgs.cudaPackages_13_0.overrideScope (final: prev: { inherit (toolkit) cudnn nccl libcusparse_lt; });
in

(pkgs.callPackage ./pytorch-python313-cuda13_0-sm121-armv9-nightly.nix {
  cudaPackages_13 = cuda;
  cudaPackages_13_0 = cuda;
}).overrideAttrs
  (oldAttrs: {
    # The derivation stays that of the nightly recipe with these inputs; only the label differs.
    passthru = oldAttrs.passthru // {
      torchsmith = {
        variant = "pytorch-python313-cuda13_0-sm121-armv9-nightly-wrapper";
        line = "nightly";
      };
    };
  })
