# What a nixpkgs tree has, asked for all that a pin states: releases, CUDA sets, Pythons, default GPUs, torch's shape.
{
  nixpkgs,
  packages, # attributes of Python's package sets, by the name of the package
  pythons, # attributes of interpreters, by version
  cudas, # attributes of CUDA's package sets, by version
}:

let
  set = system: config: import nixpkgs { inherit system config; overlays = [ ]; };
  cuda = set "x86_64-linux" { allowUnfree = true; cudaSupport = true; };
  plain = set "x86_64-linux" { allowUnfree = true; };

  # null where it is not there, or throws.
  try = value: let found = builtins.tryEval value; in if found.success then found.value else null;
  present = builtins.filter (name: name != null);
  named = attrs: have: present (map (name: if try (have attrs.${name}) == true then name else null) (builtins.attrNames attrs));

  torch = plain.python3Packages.torch;
  arguments = builtins.attrNames (torch.override.__functionArgs or { });
  capabilities = attr: try (builtins.deepSeq cuda.${attr}.flags.cudaCapabilities cuda.${attr}.flags.cudaCapabilities);
  exists = attr: cuda ? ${attr} && try (builtins.isString cuda.${attr}.cudaMajorMinorVersion) == true;
in
{
  versions = builtins.mapAttrs (_: attr: try (plain.python3Packages.${attr}.version or null)) packages;
  cudas = named cudas exists;
  default_cuda = try cuda.cudaPackages.cudaMajorMinorVersion;
  pythons = named pythons (attr: plain ? ${attr} && builtins.isString plain.${attr}.pythonVersion);
  default_python = try plain.python3Packages.python.pythonVersion;
  aliases = if try (builtins.isString (plain.python3Packages.pytorch.drvPath or null)) == true then [ "pytorch" ] else [ ];
  torch_switches = builtins.filter (name: builtins.match ".*Support" name != null) arguments;
  torch_shape = if torch.drvAttrs.__structuredAttrs or false then "structured" else "attributes";
  capabilities = builtins.mapAttrs (_: attr: if exists attr then capabilities attr else null) cudas;
  cccl = if cuda.cudaPackages ? cccl then "cccl" else "cuda_cccl";
}
