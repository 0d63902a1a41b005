# torchsmith as a Nix package: callPackage ./package.nix { } with any nixpkgs that has its dependencies.
{
  lib,
  python3Packages,
  makeWrapper,
  git,
}:
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
      ./tests/nixpkgs-mini
      ./README.md
      ./LICENSE
      ./pyproject.toml
    ];
  };

  build-system = [ python3Packages.hatchling ];
  dependencies = with python3Packages; [
    msgspec
    rich
    tree-sitter
    tree-sitter-grammars.tree-sitter-nix
    tree-sitter-grammars.tree-sitter-toml
    typer
  ];
  # A newer typer serves as well, and only starts more slowly; nixpkgs counts grammars in versions of its own.
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
