# What a nixpkgs tree has, asked for all that a pin states: releases, CUDA sets, Pythons, GPUs, torch's shape.
{
  nixpkgs,
  packages, # attributes of Python's package sets, by the name of the package
  pythons, # attributes of interpreters, by version
  cudas, # attributes of CUDA's package sets, by version
  backends, # package sets of others than CUDA: the set, the member whose version is its release, architectures
  gpus, # by system: the GPUs that it can have, each with its capability and the CUDA releases that know it
  systems, # all that recipes are for
}:

let
  set = system: config: import nixpkgs { inherit system; config = { allowUnfree = true; } // config; overlays = [ ]; };
  plain = set "x86_64-linux" { };
  cuda = builtins.mapAttrs (system: _: set system { cudaSupport = true; }) gpus;

  # null if it is not there, or throws.
  try = value: let result = builtins.tryEval (builtins.deepSeq value value); in if result.success then result.value else null;
  having = names: has: builtins.filter (name: try (has name) == true) names;
  available = package: package.meta.available or true;

  torch = plain.python3Packages.torch;
  names = attr: builtins.filter builtins.isString (builtins.split "\\." attr);
  packageOf = pkgs: attr: builtins.foldl' (set: name: set.${name} or { }) pkgs.python3Packages (names attr);
  versionOf = attr: try ((packageOf plain attr).version or null);

  sets = having (builtins.attrNames cudas) (
    name: cuda.x86_64-linux ? ${cudas.${name}} && builtins.isString cuda.x86_64-linux.${cudas.${name}}.cudaMajorMinorVersion
  );

  # What every build of torch takes from CUDA, by the name of whichever the tree has.
  libraries = pkgs: {
    cuda_nvcc = pkgs.cuda_nvcc or { };
    libcublas = pkgs.libcublas or { };
    cudnn = pkgs.cudnn or { };
    cccl = pkgs.cccl or pkgs.cuda_cccl or { };
  };
  refusing = pkgs: let offered = libraries pkgs; in builtins.filter (name: try (available offered.${name}) != true) (builtins.attrNames offered);
  # An import of nixpkgs that names the GPU, as recipes do; what the tree builds by default it does not refuse.
  refusals = system: gpu:
    let
      pkgs = set system { cudaSupport = true; cudaCapabilities = [ gpu.capability ]; };
      asked = name: builtins.elem name sets && !builtins.elem gpu.capability (capabilities.${system}.${name} or [ ]);
    in
    byName (name: refusing pkgs.${cudas.${name}}) (builtins.filter asked gpu.cudas);

  byName = value: names: builtins.listToAttrs (map (name: { inherit name; value = value name; }) names);
  capabilities = builtins.mapAttrs (
    _: pkgs: byName (name: try (pkgs.${cudas.${name}}.flags.cudaCapabilities or pkgs.${cudas.${name}}.cudaFlags.cudaCapabilities)) sets
  ) cuda;
in
{
  versions = builtins.mapAttrs (_: versionOf) packages;
  # What a system has neither with CUDA nor without.
  missing = byName (
    system: builtins.filter (
      name: let has = pkgs: try (available (packageOf pkgs packages.${name})) == true; in
        versionOf packages.${name} != null && !(cuda ? ${system} && has cuda.${system}) && !has (set system { })
    ) (builtins.attrNames packages)
  ) systems;
  # Names of the Python packages that begin as one of those asked for.
  alike = builtins.mapAttrs (
    _: attr: builtins.filter (name: builtins.substring 0 4 name == builtins.substring 0 4 attr) (builtins.attrNames plain.python3Packages)
  ) packages;
  cudas = sets;
  default_cuda = try cuda.x86_64-linux.cudaPackages.cudaMajorMinorVersion;
  pythons = having (builtins.attrNames pythons) (name: plain ? ${pythons.${name}} && builtins.isString plain.${pythons.${name}}.pythonVersion);
  default_python = try plain.python3Packages.python.pythonVersion;
  aliases = having [ "pytorch" ] (name: builtins.isString (plain.python3Packages.${name}.drvPath or null));
  torch_shape = if torch.drvAttrs.__structuredAttrs or false then "structured" else "attributes";
  triton = versionOf "triton";
  inherit capabilities;
  backends = builtins.mapAttrs (_: one: let set = plain.${one.set} or { }; in {
    release = try (set.${one.release}.version or null);
    archs = having one.archs (arch: builtins.isAttrs (set.${arch} or null));
  }) backends;
  refused = builtins.mapAttrs (system: builtins.mapAttrs (_: refusals system)) gpus;
}
