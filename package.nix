# torchsmith as a Nix package: callPackage ./package.nix { } with any nixpkgs that has its dependencies.
{
  lib,
  stdenv,
  python3Packages,
  autoPatchelfHook,
  makeWrapper,
  git,
}:
let
  # nixpkgs has no iced-x86, which reads x86-64 code for `verify`; 1.17 is the newest wheel for ARM.
  iced =
    {
      x86_64-linux = {
        version = "1.21.0";
        python = "cp38";
        hash = "sha256-SJeJN3v8H+QyvSqKV4DJ8+fDW+LmEzsN5UMs2QHK0yw=";
      };
      aarch64-linux = {
        version = "1.17.0";
        python = "cp37";
        hash = "sha256-xGzYUM4US1+fynByoumnVCaOXRXiN3uvpLlab8ihQtw=";
      };
    }
    .${stdenv.hostPlatform.system};
  machine = stdenv.hostPlatform.parsed.cpu.name;
  iced-x86 = python3Packages.buildPythonPackage {
    pname = "iced-x86";
    inherit (iced) version;
    format = "wheel";
    src = python3Packages.fetchPypi {
      pname = "iced_x86";
      inherit (iced) version python hash;
      dist = iced.python;
      format = "wheel";
      abi = "abi3";
      platform = "manylinux_2_17_${machine}.manylinux2014_${machine}";
    };
    nativeBuildInputs = [ autoPatchelfHook ];
    buildInputs = [ stdenv.cc.cc.lib ];
  };
in
python3Packages.buildPythonApplication {
  pname = "torchsmith";
  version = builtins.head (
    builtins.match ".*__version__ = \"([^\"]+)\".*" (builtins.readFile ./src/torchsmith/__init__.py)
  );
  pyproject = true;

  src = lib.fileset.toSource {
    root = ./.;
    fileset = lib.fileset.unions [
      ./src
      ./LICENSE
      ./pyproject.toml
    ];
  };

  build-system = [ python3Packages.hatchling ];
  dependencies = builtins.filter (package: package != null) (
    with python3Packages;
    [
      (python3Packages.backports-zstd or null) # Python 3.14 has it
      highspy # for cover; pip has it in the extra [fleet]
      iced-x86
      msgspec
      tomlkit
      tree-sitter
      tree-sitter-grammars.tree-sitter-nix
      tree-sitter-grammars.tree-sitter-toml
    ]
  );
  # nixpkgs counts grammars in versions of its own.
  pythonRelaxDeps = true;

  nativeBuildInputs = [ makeWrapper ];
  postFixup = ''
    wrapProgram $out/bin/torchsmith --suffix PATH : ${lib.makeBinPath [ git ]}
  '';
  doCheck = false;
  pythonImportsCheck = [ "torchsmith" ];

  meta = {
    description = "PyTorch builds made for exactly your GPU and CPU: one file, generated, proved, picked";
    license = lib.licenses.asl20;
    mainProgram = "torchsmith";
    platforms = lib.platforms.linux;
  };
}
