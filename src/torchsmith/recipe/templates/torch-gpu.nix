#? if shared
# PyTorch @torch@, Python @python@, @toolkit@: what the recipes of many GPUs and CPUs have in common.
#? else
# PyTorch @torch@, Python @python@: @gpuTitle@ and @isaTitle@ CPUs, @toolkit@.
#? end

#? include nixpkgs.nix

let
  #? include cells.nix
  #? include torch.nix
in

#? include toolkit-release.nix
customPytorch
