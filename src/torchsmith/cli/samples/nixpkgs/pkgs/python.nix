# Python interpreters and their package sets: python3Packages.override { overrides = pfinal: pprev: ...; }.
{ lib, release, config }:

final:

let
  interpreter =
    version:
    let
      attr = "python${lib.replaceStrings [ "." ] [ "" ] version}";

      # Overridable in `overrides`, as nixpkgs' is: a second override replaces the first.
      packages = lib.makeOverridable (
        { pkgs, python, overrides }:
        let
          base = import ./python-packages.nix { inherit lib pkgs python release; };
          aliases = pfinal: pprev: lib.optionalAttrs config.allowAliases {
            pytorch = if release.pytorchAlias then pfinal.torch else throw "'pytorch' has been renamed to/replaced by 'torch'";
          };
          extensions = lib.composeManyExtensions ([ aliases ] ++ pkgs.pythonPackagesExtensions ++ [ overrides ]);
          scope = f: lib.fix f // { overrideScope = g: scope (lib.extends g f); };
        in
        scope (lib.extends extensions base)
      ) { pkgs = final; python = self; overrides = _: _: { }; };

      self = final.stdenv.mkDerivation {
        pname = "python3";
        version = "${version}.0";
        installPhase = ''
          mkdir -p $out/bin
          printf '#!/bin/bash\nexec /usr/bin/python3 "$@"\n' > $out/bin/python3
          chmod +x $out/bin/python3
          ln -s python3 $out/bin/python
        '';
        passthru = rec {
          pythonVersion = version;
          pythonAttr = attr;
          sitePackages = "lib/python${version}/site-packages";
          interpreter = "${self}/bin/python3";
          pythonOnBuildForHost = self;
          pkgs = final.${attr + "Packages"};
          isPy3k = true;
          pythonAtLeast = lib.versionAtLeast version;
          withPackages = choose: import ./python-environment.nix { inherit lib; inherit (final) stdenv; python = self; modules = choose pkgs; };
        };
      };
    in
    {
      ${attr} = self;
      ${attr + "Packages"} = packages;
    };
in
interpreter "3.11"
// interpreter "3.12"
// interpreter "3.13"
// {
  python3 = final.python313;
  python3Packages = final.python313Packages;
  pythonPackagesExtensions = [ ];
}
