#? if shared
# PyTorch @torch@, Python @python@, no GPU: what the recipes of many CPUs have in common.
#? else
# PyTorch @torch@, Python @python@: @isaTitle@ CPUs, no GPU.
#? end

#? include nixpkgs.nix

let
  #? include cells.nix
  #? include torch.nix
in

customPytorch
