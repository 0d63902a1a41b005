{
  description = "torchsmith: PyTorch builds made for exactly your GPU and CPU";

  # Use another nixpkgs with: nix build --override-input nixpkgs path:/your/nixpkgs
  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";

  outputs =
    { self, nixpkgs }:
    let
      systems = [
        "x86_64-linux"
        "aarch64-linux"
      ];
      each = make: nixpkgs.lib.genAttrs systems (system: make nixpkgs.legacyPackages.${system});
    in
    {
      packages = each (pkgs: rec {
        torchsmith = pkgs.callPackage ./package.nix { };
        default = torchsmith;
      });
      apps = each (pkgs: {
        default = {
          type = "app";
          program = "${self.packages.${pkgs.stdenv.hostPlatform.system}.default}/bin/torchsmith";
        };
      });
    };
}
