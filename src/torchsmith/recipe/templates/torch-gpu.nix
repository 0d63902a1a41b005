# PyTorch @torch@, Python @python@: @gpuTitle@ and @isaTitle@ CPUs, @toolkit@.

#? include nixpkgs.nix

let
  #? include torch.nix
in

#? include toolkit-release.nix
customPytorch
