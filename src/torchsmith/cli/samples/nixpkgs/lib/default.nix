# The part of nixpkgs' lib that recipes and the miniature use.
let
  inherit (builtins)
    attrNames concatLists concatStringsSep elem filter functionArgs genList hasAttr head intersectAttrs isAttrs
    isFunction isList listToAttrs mapAttrs match removeAttrs replaceStrings stringLength substring tail
    ;
in
rec {
  inherit (builtins)
    all any attrNames attrValues compareVersions concatLists concatMap concatStringsSep elem elemAt filter fromJSON
    functionArgs genList hasAttr head intersectAttrs isAttrs isBool isFunction isInt isList isString length
    listToAttrs mapAttrs match readFile removeAttrs replaceStrings seq splitVersion stringLength substring tail toJSON
    ;

  # ---- functions and fixed points
  id = x: x;
  const = x: _: x;
  flip = f: a: b: f b a;
  pipe = builtins.foldl' (value: f: f value);
  fix = f: let x = f x; in x;
  extends = overlay: f: final: let prev = f final; in prev // overlay final prev;
  composeExtensions =
    f: g: final: prev:
    let
      first = f final prev;
    in
    first // g final (prev // first);
  composeManyExtensions = foldr composeExtensions (_: _: { });
  foldr = op: start: list: if list == [ ] then start else op (head list) (foldr op start (tail list));
  foldl' = builtins.foldl';

  # ---- lists and sets
  optional = condition: x: if condition then [ x ] else [ ];
  optionals = condition: xs: if condition then xs else [ ];
  optionalString = condition: text: if condition then text else "";
  optionalAttrs = condition: set: if condition then set else { };
  toList = x: if isList x then x else [ x ];
  flatten = x: if isList x then concatLists (map flatten x) else [ x ];
  unique = builtins.foldl' (seen: x: if elem x seen then seen else seen ++ [ x ]) [ ];
  subtractLists = gone: filter (x: !(elem x gone));
  intersectLists = wanted: filter (x: elem x wanted);
  range = first: last: if first > last then [ ] else genList (n: first + n) (last - first + 1);
  last = list: builtins.elemAt list (builtins.length list - 1);
  take = count: list: if count <= 0 || list == [ ] then [ ] else [ (head list) ] ++ take (count - 1) (tail list);
  nameValuePair = name: value: { inherit name value; };
  filterAttrs = keep: set: listToAttrs (concatLists (map (name: optional (keep name set.${name}) (nameValuePair name set.${name})) (attrNames set)));
  mapAttrs' = f: set: listToAttrs (map (name: f name set.${name}) (attrNames set));
  genAttrs = names: f: listToAttrs (map (name: nameValuePair name (f name)) names);
  recursiveUpdate = a: b: a // mapAttrs (name: value: if isAttrs value && isAttrs (a.${name} or null) then recursiveUpdate a.${name} value else value) b;
  attrByPath = path: default: set: if path == [ ] then set else if hasAttr (head path) set then attrByPath (tail path) default set.${head path} else default;
  isDerivation = x: x.type or null == "derivation";
  recurseIntoAttrs = set: set // { recurseForDerivations = true; };
  dontRecurseIntoAttrs = set: set // { recurseForDerivations = false; };

  # ---- strings and versions
  concatStrings = concatStringsSep "";
  concatMapStrings = f: list: concatStrings (map f list);
  concatMapStringsSep = separator: f: list: concatStringsSep separator (map f list);
  hasPrefix = prefix: text: substring 0 (stringLength prefix) text == prefix;
  hasSuffix = suffix: text: stringLength text >= stringLength suffix && substring (stringLength text - stringLength suffix) (-1) text == suffix;
  hasInfix = infix: text: match ".*${escapeRegex infix}.*" text != null;
  removePrefix = prefix: text: if hasPrefix prefix text then substring (stringLength prefix) (-1) text else text;
  removeSuffix = suffix: text: if hasSuffix suffix text then substring 0 (stringLength text - stringLength suffix) text else text;
  escapeRegex = replaceStrings [ "\\" "." "+" "*" "?" "(" ")" "[" "]" "{" "}" "^" "$" "|" ] [ "\\\\" "\\." "\\+" "\\*" "\\?" "\\(" "\\)" "\\[" "\\]" "\\{" "\\}" "\\^" "\\$" "\\|" ];
  escapeShellArg = word: "'${replaceStrings [ "'" ] [ "'\\''" ] (toString word)}'";
  escapeShellArgs = concatMapStringsSep " " escapeShellArg;
  splitString = separator: text: filter builtins.isString (builtins.split (escapeRegex separator) text);
  toLower = replaceStrings (splitChars "ABCDEFGHIJKLMNOPQRSTUVWXYZ") (splitChars "abcdefghijklmnopqrstuvwxyz");
  splitChars = text: genList (n: substring n 1 text) (stringLength text);
  boolToString = b: if b then "true" else "false";
  versionOlder = a: b: builtins.compareVersions b a == 1;
  versionAtLeast = a: b: !(versionOlder a b);
  versions = rec {
    major = v: builtins.elemAt (builtins.splitVersion v) 0;
    minor = v: builtins.elemAt (builtins.splitVersion v) 1;
    majorMinor = v: "${major v}.${minor v}";
  };
  cmakeFeature = name: value: "-D${name}:STRING=${value}";
  cmakeBool = name: value: "-D${name}:BOOL=${if value then "TRUE" else "FALSE"}";
  fakeHash = "sha256-AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
  throwIf = condition: message: x: if condition then throw message else x;
  assertMsg = condition: message: condition || throw message;
  throwIfNot = condition: throwIf (!condition);
  warn = message: builtins.trace "evaluation warning: ${message}";
  warnIf = condition: message: if condition then warn message else id;

  # ---- packages
  getName = x: if isAttrs x then x.pname or (builtins.parseDrvName x.name).name else (builtins.parseDrvName x).name;
  getVersion = x: if isAttrs x then x.version or (builtins.parseDrvName x.name).version else (builtins.parseDrvName x).version;
  getOutput = output: pkg: if pkg.outputSpecified or false then pkg else pkg.${output} or pkg.out or pkg;
  getDev = getOutput "dev";
  getLib = getOutput "lib";
  getInclude = pkg: pkg.include or (getDev pkg);
  getBin = getOutput "bin";
  getExe = pkg: getExe' pkg (pkg.meta.mainProgram or (getName pkg));
  getExe' = pkg: program: "${getBin pkg}/bin/${program}";
  makeBinPath = concatMapStringsSep ":" (pkg: "${getBin pkg}/bin");
  makeLibraryPath = concatMapStringsSep ":" (pkg: "${getLib pkg}/lib");
  maintainers = { };
  # As nixpkgs states them: what is not free may be redistributed only where it says so.
  licenses = mapAttrs (shortName: stated: { inherit shortName; free = true; redistributable = stated.free or true; } // stated) {
    asl20 = { spdxId = "Apache-2.0"; fullName = "Apache License 2.0"; };
    bsd2 = { spdxId = "BSD-2-Clause"; fullName = "BSD 2-clause \"Simplified\" License"; };
    bsd3 = { spdxId = "BSD-3-Clause"; fullName = "BSD 3-clause \"New\" or \"Revised\" License"; };
    gpl2Plus = { spdxId = "GPL-2.0-or-later"; fullName = "GNU General Public License v2.0 or later"; };
    gpl3Plus = { spdxId = "GPL-3.0-or-later"; fullName = "GNU General Public License v3.0 or later"; };
    mit = { spdxId = "MIT"; fullName = "MIT License"; };
    issl = { fullName = "Intel Simplified Software License"; url = "https://software.intel.com/en-us/license/intel-simplified-software-license"; free = false; };
    nvidiaCuda = { shortName = "CUDA EULA"; fullName = "CUDA Toolkit End User License Agreement (EULA)"; url = "https://docs.nvidia.com/cuda/eula/index.html#cuda-toolkit-supplement-license-agreement"; free = false; };
    nvidiaCudaRedist = licenses.nvidiaCuda // { redistributable = true; };
    unfree = { fullName = "Unfree"; free = false; };
  };
  platforms = rec {
    linux = [ "x86_64-linux" "aarch64-linux" ];
    darwin = [ "x86_64-darwin" "aarch64-darwin" ];
    all = linux ++ darwin;
    unix = all;
  };

  lists = { inherit elem filter flatten intersectLists last optional optionals range subtractLists toList unique; map = builtins.map; };
  strings = { inherit concatMapStringsSep concatStrings concatStringsSep escapeShellArg hasInfix hasPrefix hasSuffix optionalString removePrefix removeSuffix splitString toLower versionAtLeast versionOlder; };
  attrsets = { inherit filterAttrs genAttrs isDerivation mapAttrs mapAttrs' nameValuePair optionalAttrs recursiveUpdate; };
  trivial = { inherit const flip id pipe throwIf warn warnIf; };

  # ---- overriding
  setFunctionArgs = f: args: { __functor = _: f; __functionArgs = args; };
  mirrorFunctionArgs = f: let args = f.__functionArgs or (functionArgs f); in g: setFunctionArgs g args;
  isCallable = f: isFunction f || (isAttrs f && f ? __functor);
  argsOf = f: f.__functionArgs or (functionArgs f);

  makeOverridable =
    f:
    let
      mirror = if isCallable f then mirrorFunctionArgs f else id;
    in
    mirror (
      args:
      let
        result = f args;
        changed = new: args // (if isCallable new then new args else new);
        overrideResult = g: makeOverridable (mirror (xs: g (f xs))) args;
      in
      if isAttrs result then
        result
        // { override = mirror (new: makeOverridable f (changed new)); }
        // optionalAttrs (result ? overrideAttrs) { overrideAttrs = g: overrideResult (x: x.overrideAttrs g); }
        // optionalAttrs (result ? overridePythonAttrs) { overridePythonAttrs = g: overrideResult (x: x.overridePythonAttrs g); }
      else if isFunction result then
        setFunctionArgs result (functionArgs result) // { override = new: makeOverridable f (changed new); }
      else
        result
    );

  callPackageWith =
    scope: fn: args:
    let
      f = if isCallable fn then fn else import fn;
      wanted = argsOf f;
      given = intersectAttrs wanted scope // args;
      missing = filter (name: !wanted.${name}) (attrNames (removeAttrs wanted (attrNames given)));
    in
    if missing == [ ] then makeOverridable f given
    else abort "callPackage: function called without required argument \"${head missing}\"";

  # A derivation with more attributes on it and on each of its outputs; drvPath and outPath ask `condition` first.
  extendDerivation =
    condition: passthru: drv:
    let
      common = drv // listToAttrs outputs // { all = map (o: o.value) outputs; } // passthru;
      outputs = map (name: {
        inherit name;
        value = common // {
          inherit (drv.${name}) type outputName;
          outputSpecified = true;
          drvPath = assert condition; drv.${name}.drvPath;
          outPath = assert condition; drv.${name}.outPath;
        };
      }) (drv.outputs or [ "out" ]);
    in
    common // {
      drvPath = assert condition; drv.drvPath;
      outPath = assert condition; drv.outPath;
    };
}
