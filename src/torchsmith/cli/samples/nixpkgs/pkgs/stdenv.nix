# stdenv.mkDerivation: fixed points, overrideAttrs, passthru, and meta that is checked before a path is given out.
{ lib, config, system }:

let
  hostPlatform = {
    inherit system;
    isLinux = lib.hasSuffix "-linux" system;
    isDarwin = lib.hasSuffix "-darwin" system;
    isAarch64 = lib.hasPrefix "aarch64-" system;
    isx86_64 = lib.hasPrefix "x86_64-" system;
    is64bit = true;
    config = "${lib.head (lib.splitString "-" system)}-unknown-linux-gnu";
  };

  # nixpkgs' words, because programs read them.
  complaint =
    name: meta:
    let
      licenses = lib.toList (meta.license or [ ]);
      unfree = lib.filter (license: !(license.free or true)) licenses;
    in
    if unfree != [ ] && !config.allowUnfree then
      "has an unfree license (‘${lib.concatMapStringsSep " " (license: license.shortName) unfree}’)"
    else if meta.broken or false && !config.allowBroken then
      "is marked as broken"
    else if meta ? platforms && !(lib.elem system meta.platforms) && !(config.allowUnsupportedSystem) then
      "is not available on the requested hostPlatform:\n  hostPlatform.system = \"${system}\""
    else
      null;

  checked =
    name: meta:
    let
      words = complaint name meta;
    in
    if words == null then true else throw "Package ‘${name}’ ${words}, refusing to evaluate.";

  dependencyLists = [ "nativeBuildInputs" "buildInputs" "propagatedBuildInputs" "propagatedNativeBuildInputs" ];

  toDerivationArgs =
    attrs:
    let
      name = attrs.name or "${attrs.pname}-${attrs.version}";
      structured = attrs.__structuredAttrs or false;
      overlap = lib.attrNames (builtins.intersectAttrs plain (attrs.env or { }));
      plain = removeAttrs attrs [ "meta" "passthru" "env" "pos" ];
      chosen = lib.genAttrs (lib.filter (key: attrs ? ${key}) dependencyLists) (key: map lib.getDev (lib.filter (x: x != null) (lib.flatten attrs.${key})));
    in
    # nixpkgs' words, because programs read them.
    if overlap != [ ] then
      throw "The `env` attribute set cannot contain any attributes passed to derivation. The following attributes are overlapping:\n  - ${lib.concatStringsSep "\n  - " overlap}"
    else
    plain
    // (if structured then { env = lib.mapAttrs (_: toString) (attrs.env or { }); } else attrs.env or { })
    // chosen
    // {
      inherit name system;
      builder = "/bin/bash";
      args = [ ./builder.sh ];
      setup = ./setup.sh;
      outputs = attrs.outputs or [ "out" ];
    };

  make =
    rattrs:
    let
      attrs = rattrs (attrs // { finalPackage = package; inherit overrideAttrs; });
      overrideAttrs =
        change:
        make (
          final:
          let
            previous = rattrs final;
            once = change previous;
          in
          previous // (if !(lib.isFunction change) then change else if lib.isFunction once then change final previous else once)
        );
      args = toDerivationArgs attrs;
      meta = { inherit (args) name; } // (attrs.meta or { });
      available = complaint args.name meta == null;
      package = lib.extendDerivation (checked args.name meta) (
        {
          inherit overrideAttrs stdenv;
          meta = meta // { inherit available; };
          passthru = attrs.passthru or { };
          drvAttrs = args;
          inputDerivation = null;
        }
        // (attrs.passthru or { })
        // lib.optionalAttrs (attrs ? src) { inherit (attrs) src; }
        // lib.optionalAttrs (attrs ? patches) { inherit (attrs) patches; }
      ) (derivation args);
    in
    package;

  stdenv = {
    inherit hostPlatform system;
    buildPlatform = hostPlatform;
    targetPlatform = hostPlatform;
    inherit (hostPlatform) isLinux isDarwin isAarch64 isx86_64;
    name = "stdenv-linux";
    type = "stdenv";
    cc = { isGNU = true; isClang = false; targetPrefix = ""; outPath = "/usr"; name = "host-compiler"; };
    shell = "/bin/bash";
    mkDerivation = fnOrAttrs: make (if lib.isFunction fnOrAttrs then fnOrAttrs else _: fnOrAttrs);
  };
in
stdenv
