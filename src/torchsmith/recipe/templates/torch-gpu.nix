#? if shared
# PyTorch @torch@, Python @python@, CUDA @cuda@: what the recipes of many GPUs and CPUs have in common.
#? else
# PyTorch @torch@, Python @python@: @gpuTitle@ and @isaTitle@ CPUs, CUDA @cuda@.
#? end

#? include nixpkgs.nix

let
  #? include cells.nix
  #? include torch.nix
in

# A package set whose CUDA is another one must not pass for @cuda@.
assert pkgs.cudaPackages.cudaMajorMinorVersion == "@cuda@";

customPytorch
