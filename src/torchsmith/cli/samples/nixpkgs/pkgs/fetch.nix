# Fetchers: fixed-output derivations whose "network" is the folder sources/, laid out like github.com.
{ lib, stdenv }:

let
  sources = ../sources;
  known = import ../hashes.nix;

  hashOf = args: args.hash or (if args ? sha256 then args.sha256 else "");

  # Nix takes an empty hash for the fake one, with a warning; so does every fetcher of nixpkgs.
  fetch =
    { name, url, mode, hash, path ? lib.removePrefix "https://github.com/" url, extra ? { } }:
    let
      script = ''
        set -e
        PATH=/usr/bin:/bin
        if [ ! -e "$sources/$path" ]; then
          echo "curl: (6) Could not resolve host: github.com" >&2
          echo "error: cannot download $name from any mirror" >&2
          exit 1
        fi
        cp -r --no-preserve=mode,timestamps "$sources/$path" "$out"
        : # cp must not be the last: bash would become it, and Nix kills what closes its output before it ends
      '';
      common = {
        inherit name url path sources;
        inherit (stdenv) system;
        builder = "/bin/bash";
        args = [ "-c" script ];
        preferLocalBuild = true;
      };
      drv = derivation (
        common
        // {
          outputHashMode = mode;
          outputHash = hash;
        }
        // lib.optionalAttrs (hash == "" || !(lib.hasInfix "-" hash)) { outputHashAlgo = "sha256"; }
      );
    in
    drv // extra // { inherit url; urls = [ url ]; } // lib.optionalAttrs (lib.elem hash known) {
      # drvPath stays the download's; what is built from it gets our own source.
      inherit (derivation (common // { name = "${name}-stand-in"; upstreamHash = hash; })) outPath;
    };
in
rec {
  fetchurl =
    args:
    let
      url = args.url or (lib.head args.urls);
    in
    fetch {
      name = args.name or (baseNameOf url);
      mode = "flat";
      hash = hashOf args;
      inherit url;
    };

  fetchpatch = fetchurl;
  fetchpatch2 = fetchurl;

  fetchzip =
    args:
    fetch {
      name = args.name or "source";
      mode = "recursive";
      hash = hashOf args;
      inherit (args) url;
    };

  fetchFromGitHub =
    { owner, repo, tag ? null, rev ? null, fetchSubmodules ? false, ... }@args:
    assert (tag == null) != (rev == null);
    let
      revision = if tag != null then "refs/tags/${tag}" else rev;
    in
    fetch {
      name = args.name or "source";
      mode = "recursive";
      hash = hashOf args;
      url = "https://github.com/${owner}/${repo}/archive/${revision}.tar.gz";
      path = "${owner}/${repo}";
      extra = {
        inherit owner repo tag fetchSubmodules;
        rev = revision;
      };
    };

  # What the miniature itself ships is built from its own sources.
  source = owner: repo: builtins.path { name = "source"; path = sources + "/${owner}/${repo}"; };
}
