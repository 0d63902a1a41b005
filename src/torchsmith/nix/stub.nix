# A package set that knows names and overriding but builds nothing: enough to tell what a recipe asks for.
{
  recipe, # its value, as a function of what stands around it
  names, # every attribute name in its text: each becomes a package here
  system,
}:

let
  inherit (builtins)
    attrNames
    concatStringsSep
    elem
    elemAt
    filter
    foldl'
    functionArgs
    head
    isAttrs
    isFunction
    isList
    isString
    length
    listToAttrs
    map
    mapAttrs
    removeAttrs
    replaceStrings
    splitVersion
    stringLength
    substring
    tail
    ;

  lib = rec {
    inherit (builtins)
      all
      any
      attrNames
      attrValues
      concatLists
      concatMap
      concatStringsSep
      elem
      elemAt
      filter
      head
      isList
      isString
      length
      mapAttrs
      removeAttrs
      replaceStrings
      splitVersion
      stringLength
      substring
      tail
      ;
    id = x: x;
    fix = f: let x = f x; in x;
    optional = c: x: if c then [ x ] else [ ];
    optionals = c: xs: if c then xs else [ ];
    optionalString = c: s: if c then s else "";
    optionalAttrs = c: s: if c then s else { };
    concatMapStringsSep = separator: f: xs: concatStringsSep separator (map f xs);
    concatMapStrings = concatMapStringsSep "";
    concatStrings = concatStringsSep "";
    hasPrefix = prefix: s: substring 0 (stringLength prefix) s == prefix;
    hasSuffix = suffix: s: stringLength s >= stringLength suffix && substring (stringLength s - stringLength suffix) (-1) s == suffix;
    hasInfix = infix: s: length (builtins.split infix s) > 1;
    removePrefix = prefix: s: if hasPrefix prefix s then substring (stringLength prefix) (-1) s else s;
    removeSuffix = suffix: s: if hasSuffix suffix s then substring 0 (stringLength s - stringLength suffix) s else s;
    filterAttrs = keep: set: removeAttrs set (filter (n: !(keep n set.${n})) (attrNames set));
    genAttrs = ns: f: listToAttrs (map (name: { inherit name; value = f name; }) ns);
    take = n: xs: if n <= 0 || xs == [ ] then [ ] else [ (head xs) ] ++ take (n - 1) (tail xs);
    unique = foldl' (seen: x: if elem x seen then seen else seen ++ [ x ]) [ ];
    flatten = x: if isList x then builtins.concatLists (map flatten x) else [ x ];
    toList = x: if isList x then x else [ x ];
    versionOlder = a: b: builtins.compareVersions b a == 1;
    versionAtLeast = a: b: !(versionOlder a b);
    versions = {
      major = v: elemAt (splitVersion v) 0;
      minor = v: elemAt (splitVersion v) 1;
      majorMinor = v: concatStringsSep "." (take 2 (splitVersion v));
    };
    getName = x: x.pname or x.name or x;
    getVersion = x: x.version or "";
    getDev = x: x.dev or x;
    getLib = x: x.lib or x;
    getBin = x: x.bin or x;
    getInclude = x: x.dev or x;
    getStatic = x: x.static or x;
    getOutput = o: x: x.${o} or x;
    getExe = x: "${x}/bin/${getName x}";
    getExe' = x: y: "${x}/bin/${y}";
    makeLibraryPath = concatMapStringsSep ":" (x: "${x}/lib");
    makeBinPath = concatMapStringsSep ":" (x: "${x}/bin");
    escapeShellArg = s: "'${replaceStrings [ "'" ] [ "'\\''" ] (toString s)}'";
    cmakeFeature = n: v: "-D${n}:STRING=${v}";
    cmakeBool = n: v: "-D${n}:BOOL=${if v then "TRUE" else "FALSE"}";
    assertMsg = c: message: if c then true else throw message;
    throwIf = c: message: x: if c then throw message else x;
    warn = message: x: x;
    recurseIntoAttrs = x: x;
    dontRecurseIntoAttrs = x: x;
    fakeHash = "sha256-AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
    fakeSha256 = fakeHash;
    maintainers = { };
    licenses = genAttrs [ "bsd2" "bsd3" "mit" "asl20" "unfree" "nvidiaCuda" ] (n: { shortName = n; });
    platforms = rec {
      linux = [ "x86_64-linux" "aarch64-linux" ];
      darwin = [ "x86_64-darwin" "aarch64-darwin" ];
      all = linux ++ darwin;
      unix = all;
    };
    lists = { inherit optional optionals unique flatten toList take; };
    strings = { inherit concatStringsSep hasPrefix hasSuffix removePrefix removeSuffix optionalString; };
    attrsets = { inherit filterAttrs genAttrs optionalAttrs; };
  };

  # A package: arguments that override changes, attributes that overrideAttrs changes.
  package =
    args: attrsOf:
    let
      attrs = attrsOf args;
      changed = change: old: if isFunction change then change old else change;
      outputs = listToAttrs (
        map (name: {
          inherit name;
          value = self // { outputName = name; outputSpecified = true; };
        }) [ "out" "dev" "lib" "bin" "static" "cxxdev" "dist" ]
      );
      self =
        attrs
        // {
          type = "derivation";
          name = attrs.name or "${attrs.pname}-${attrs.version or "0"}";
          outPath = "/stub/${attrs.pname or attrs.name}";
          drvPath = "/stub/${attrs.pname or attrs.name}.drv";
          meta = attrs.meta or { };
          passthru = attrs.passthru or { };
          stubArguments = args;
          stubAttributes = attrs;
          override = change: package (args // changed change args) attrsOf;
          overrideAttrs = change: package args (xs: let old = attrsOf xs; in old // (if isFunction change then (let once = change old; in if isFunction once then change old old else once) else change));
          overridePythonAttrs = self.overrideAttrs;
        }
        // outputs
        // (attrs.passthru or { });
    in
    self;

  plain = pname: package { } (_: { inherit pname; version = "0"; patches = [ ]; meta = { }; passthru = { }; });

  source = fetcher: args: {
    type = "derivation";
    name = args.name or "source";
    outPath = "/stub/source";
    drvPath = "/stub/source.drv";
    inherit fetcher;
    arguments = args;
  };

  cudaVersion =
    attr:
    let
      found = builtins.match "cudaPackages_([0-9]+)_?([0-9]*)" attr;
    in
    if found == null then "12.8"
    else if elemAt found 1 == "" then (if head found == "13" then "13.0" else "12.8")
    else "${head found}.${elemAt found 1}";

  cudaSet =
    attr:
    lib.genAttrs names (name: plain "cuda-${name}")
    // rec {
      cudaMajorMinorVersion = cudaVersion attr;
      cudaMajorVersion = lib.versions.major cudaMajorMinorVersion;
      cudaVersion' = cudaMajorMinorVersion;
      cudaAtLeast = lib.versionAtLeast cudaMajorMinorVersion;
      cudaOlder = lib.versionOlder cudaMajorMinorVersion;
      flags.cudaCapabilities = [ "every capability of this CUDA" ];
      backendStdenv = stdenv;
      overrideScope = f: cudaSet attr // f (cudaSet attr) (cudaSet attr);
    };

  stdenv = {
    inherit system;
    hostPlatform = {
      inherit system;
      isLinux = true;
      isAarch64 = system == "aarch64-linux";
      isx86_64 = system == "x86_64-linux";
    };
    isLinux = true;
    cc = plain "gcc";
    mkDerivation = attrs: package { } (_: if isFunction attrs then lib.fix attrs else attrs);
  };

  # torch and what may need it: what the real ones take and hand on.
  torch =
    final:
    package
      {
        inherit (final.config) cudaSupport;
        inherit (final) cudaPackages;
        gpuTargets = [ ];
      }
      (args: {
        pname = "torch";
        version = "the pin's own";
        patches = [ "the pin's own" ];
        preConfigure = "";
        postPatch = "";
        preBuild = "";
        cmakeFlags = [ ];
        buildInputs = [ ];
        nativeBuildInputs = [ ];
        propagatedBuildInputs = [ ];
        env = { };
        meta = { };
        passthru = {
          inherit (args) cudaSupport cudaPackages;
          cudaCapabilities = if args.cudaSupport then args.cudaPackages.flags.cudaCapabilities else [ ];
          requiredPythonModules = [ ];
        };
      });

  companion =
    pfinal: pname:
    package { inherit (pfinal) torch; } (args: {
      inherit pname;
      version = "the pin's own";
      patches = [ ];
      preConfigure = "";
      buildInputs = [ ];
      nativeBuildInputs = [ ];
      propagatedBuildInputs = [ args.torch ];
      env.TORCH_CUDA_ARCH_LIST = concatStringsSep ";" args.torch.cudaCapabilities;
      meta = { };
      passthru.requiredPythonModules = [ ];
    });

  pythonSet =
    final: version:
    let
      base = pfinal:
        lib.genAttrs names (companion pfinal)
        // {
          inherit (final) lib stdenv;
          python = plain "python" // { pythonVersion = version; sitePackages = "lib/python${version}/site-packages"; interpreter = "/stub/python"; };
          pythonVersion = version;
          buildPythonPackage = {
            __functor = _: attrs: package { } (_: { passthru = { }; meta = { }; } // (if isFunction attrs then lib.fix attrs else attrs));
            override = _: pfinal.buildPythonPackage;
          };
          torch = torch final;
        };
      make = overrides:
        let
          set = let prev = base set; in prev // overrides set prev // { override = args: make (args.overrides or (_: _: { })); inherit overrideScope; pkgs = final; };
          overrideScope = f: make (self: prev: let changed = overrides self prev; in changed // f self (prev // changed));
        in
        set;
    in
    make (_: _: { });

  isCudaSet = name: builtins.match "cudaPackages(_[0-9_]+)?" name != null;

  packages =
    { config ? { }, overlays ? [ ], ... }@args:
    let
      base =
        lib.genAttrs names (name: if isCudaSet name then cudaSet name else plain name)
        // lib.genAttrs [ "cudaPackages_12_6" "cudaPackages_12_8" "cudaPackages_12_9" "cudaPackages_13" "cudaPackages_13_0" "cudaPackages_13_1" ] cudaSet
        // {
          inherit lib stdenv;
          pkgs = final;
          config = { cudaSupport = false; rocmSupport = false; allowUnfree = false; } // config;
          system = args.system or system;
          cudaPackages = cudaSet "cudaPackages";
          callPackage = f: given: let g = if isFunction f then f else throw "a file is not read here"; in g (builtins.intersectAttrs (functionArgs g) final // given);
          writeText = name: text: plain name;
          runCommand = name: env: script: plain name;
          symlinkJoin = xs: plain xs.name;
          python3Packages = pythonSet final "3.13";
          python311Packages = pythonSet final "3.11";
          python312Packages = pythonSet final "3.12";
          python313Packages = pythonSet final "3.13";
          blas = plain "blas" // { provider = plain "openblas"; };
          magma = package { inherit (final) cudaPackages; } (_: { pname = "magma"; version = "2.9.0"; patches = [ ]; meta = { }; passthru = { }; });
        }
        // lib.genAttrs [ "fetchurl" "fetchpatch" "fetchpatch2" "fetchzip" "fetchgit" "fetchFromGitHub" "fetchFromGitLab" ] source;
      final = foldl' (prev: overlay: prev // overlay final prev) base overlays;
    in
    final;

  # Values that JSON can hold; a package by its name, a function not at all.
  shown =
    depth: x:
    if x == null || builtins.isBool x || builtins.isInt x || builtins.isFloat x || isString x then x
    else if builtins.isPath x then toString x
    else if isFunction x || depth <= 0 then null
    else if isAttrs x && x ? cudaMajorMinorVersion then { cuda = x.cudaMajorMinorVersion; }
    else if isList x then map (shown (depth - 1)) x
    else if x ? arguments && x ? fetcher then { inherit (x) fetcher; arguments = shown 2 x.arguments; }
    else if x.type or null == "derivation" then { package = x.pname or x.name; }
    else mapAttrs (_: shown (depth - 1)) x;

  # What only computes. A recipe has no other builtin: none that reads, fetches, builds or tells the time.
  pure = {
    inherit (builtins)
      abort
      add
      addErrorContext
      all
      any
      attrNames
      attrValues
      baseNameOf
      bitAnd
      bitOr
      bitXor
      catAttrs
      ceil
      compareVersions
      concatLists
      concatMap
      concatStringsSep
      deepSeq
      dirOf
      div
      elem
      elemAt
      filter
      floor
      foldl'
      fromJSON
      fromTOML
      functionArgs
      genList
      genericClosure
      getAttr
      getContext
      groupBy
      hasAttr
      hasContext
      hashString
      head
      intersectAttrs
      isAttrs
      isBool
      isFloat
      isFunction
      isInt
      isList
      isNull
      isPath
      isString
      langVersion
      length
      lessThan
      listToAttrs
      map
      mapAttrs
      match
      mul
      nixVersion
      parseDrvName
      partition
      removeAttrs
      replaceStrings
      seq
      sort
      split
      splitVersion
      stringLength
      sub
      substring
      tail
      throw
      toJSON
      toString
      toXML
      trace
      tryEval
      typeOf
      unsafeDiscardStringContext
      unsafeGetAttrPos
      zipAttrsWith
      ;
    true = true;
    false = false;
    null = null;
    import = _: packages;
    currentSystem = system;
    storeDir = "/nix/store";
    getEnv = _: "";
    pathExists = _: false;
    fetchTarball = address: address;
  };

  value =
    let
      f = recipe {
        builtins = pure;
        inherit (pure) import fetchTarball;
        scopedImport = _: packages;
      };
    in
    if !isFunction f then f
    else if builtins.all (name: (functionArgs f).${name}) (attrNames (functionArgs f)) then f { }
    else (packages { config.allowUnfree = true; }).callPackage f { };
in
if !isAttrs value || value.type or null != "derivation" then
  { error = "is not a package: it evaluates to a value of type ${builtins.typeOf value}"; }
else
  {
    inherit (value) name;
    arguments = shown 2 value.stubArguments;
    attributes = shown 3 (removeAttrs value.stubAttributes [ "passthru" "meta" ]);
    passthru = shown 2 (value.passthru or { });
    meta = shown 2 (value.meta or { });
    torch = if value.stubArguments ? torch then shown 3 (removeAttrs value.stubArguments.torch.stubAttributes [ "passthru" "meta" ]) else null;
    torch_arguments = if value.stubArguments ? torch then shown 2 value.stubArguments.torch.stubArguments else null;
  }
