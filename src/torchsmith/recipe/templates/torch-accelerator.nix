#? if shared
# PyTorch @torch@, Python @python@, @gpuTitle@, @backend@ @backendRelease@: what the recipes of many CPUs have in common.
#? else
# PyTorch @torch@, Python @python@: @gpuTitle@ and @isaTitle@ CPUs, @backend@ @backendRelease@.
#? end

#? include nixpkgs.nix

let
  #? include cells.nix
  #? include torch.nix
in

#? if packageSet
# A package set whose @backend@ is another one must not pass for @backendRelease@.
assert pkgs.lib.versions.majorMinor pkgs.@packageSet@.@releaseOf@.version == "@backendRelease@";

#? end
customPytorch
