# PyTorch @torch@, Python @python@: @isaTitle@ CPUs, no GPU.

#? include nixpkgs.nix

let
  #? include torch.nix
in

customPytorch
