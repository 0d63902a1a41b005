# Evaluates recipes one after the other and reports each in a trace line, so that one which fails, or makes the
# process too big, does not cost the others their results. Nothing but the shared package sets is kept between two recipes.
{
  mark, # begins every line of the driver
  trees, # nixpkgs trees in place of downloads: by revision, or `default`
  downloads, # tarballs fetched beforehand: by address, hash and name; nothing else can be fetched
  shared, # files of package sets that several recipes import, by name
  roots, # folders of the workspace
  jobs, # recipes: id, file, prepared, system, buildPhase (null: their own)
  twin, # the system that every nixpkgs is imported for, null: as each recipe says
}:

let
  # A pin's own tree if one was given for its revision, else the one for any nixpkgs, else the download.
  treeFor =
    address:
    let
      url = if builtins.isAttrs address then address.url else address;
      found = builtins.match ".*([0-9a-f]{40}).*" url;
      rev = if found == null then "" else builtins.head found;
    in
    trees.${rev} or (if builtins.match ".*nixpkgs.*" url == null then null else trees.default or null);

  fetchTarball =
    address:
    let
      tree = treeFor address;
      asked = if builtins.isAttrs address then address else { url = address; };
      found = downloads."${asked.url} ${asked.sha256 or ""} ${asked.name or ""}" or null;
    in
    if tree != null then
      /. + tree
    else if found == null then
      builtins.fetchTarball address
    else if found ? failure then
      # The message alone would not do: a recipe may throw the same one.
      builtins.seq (say { unfetched = "${asked.url} ${asked.sha256 or ""} ${asked.name or ""}"; }) (throw found.failure)
    else
      builtins.appendContext found.path { ${found.path}.path = true; };

  # Files of the workspace that a recipe imports see what the recipe sees; nixpkgs' own do not.
  imported =
    file:
    let
      at = toString file + "/";
      within = builtins.any (folder: builtins.substring 0 (builtins.stringLength folder) at == folder);
    in
    if within roots && !within (map (tree: tree + "/") (builtins.attrValues trees)) then
      builtins.scopedImport scope file
    else if twin != null && builtins.pathExists (file + "/lib/default.nix") then
      arguments: import file (asTwin arguments)
    else
      import file;

  scope = {
    inherit fetchTarball;
    import = imported;
    builtins = builtins // {
      inherit fetchTarball;
      import = imported;
    };
    # What <nixpkgs> means; the search path itself names only what may be read.
    __nixPath =
      if trees ? default then
        [
          {
            prefix = "nixpkgs";
            path = trees.default;
          }
        ]
      else
        [ ];
  };

  # What a package may not be used on does not matter to its sources.
  asTwin =
    arguments:
    let
      given = arguments.config or { };
      allowed = config: config // { allowUnsupportedSystem = true; };
    in
    removeAttrs arguments [
      "localSystem"
      "crossSystem"
    ]
    // {
      system = twin;
      config = if builtins.isFunction given then pkgs: allowed (given pkgs) else allowed given;
    };

  packageSets = builtins.mapAttrs (_: file: import file scope) shared;

  value =
    job:
    if job.prepared then
      import job.file (scope // { torchsmithShared = packageSets; })
    else
      builtins.scopedImport scope job.file;

  # Arguments without a default come from a package set, as Flox' callPackage gives them.
  packages = builtins.listToAttrs (
    map (job: {
      name = job.system;
      value = imported (if trees ? default then /. + trees.default else throw "there is no nixpkgs to take its arguments from: give one with --nixpkgs") {
        inherit (job) system;
        config.allowUnfree = true;
      };
    }) jobs
  );

  called =
    job: f:
    if !builtins.isFunction f then
      f
    else if builtins.all (name: (builtins.functionArgs f).${name}) (builtins.attrNames (builtins.functionArgs f)) then
      f { }
    else
      packages.${job.system}.callPackage f { };

  # A fact that fails is left out; the derivation itself must not fail.
  orNull =
    fact:
    let
      tried = builtins.tryEval (builtins.deepSeq fact fact);
    in
    if tried.success then tried.value else null;
  text = x: if builtins.isString x then builtins.unsafeDiscardStringContext x else null;
  texts = x: if builtins.isList x then builtins.filter (one: one != null) (map text x) else null;

  # A rehearsal is the recipe's own derivation with another build phase.
  rehearsed = job: d: if job.buildPhase == null || !(d ? overrideAttrs) then d else d.overrideAttrs (_: { inherit (job) buildPhase; });

  report =
    job:
    let
      d = rehearsed job (called job (value job));
    in
    if !builtins.isAttrs d || d.type or null != "derivation" then
      { not_a_derivation = builtins.typeOf d; }
    else
      {
        drv_path = text d.drvPath;
        name = text d.name;
        system = text d.system;
        outputs = builtins.listToAttrs (
          map (output: {
            name = output;
            value = text d.${output}.outPath;
          }) (d.outputs or [ "out" ])
        );
        facts = {
          pname = orNull (text (d.pname or null));
          version = orNull (text (d.version or null));
          description = orNull (text (d.meta.description or null));
          platforms = orNull (texts (d.meta.platforms or null));
          capabilities = orNull (texts (d.cudaCapabilities or null));
          variant = orNull (text (d.torchsmith.variant or null));
          line = orNull (text (d.torchsmith.line or null));
        };
      };

  say = what: builtins.trace (mark + builtins.toJSON what) null;

  step =
    done: job:
    builtins.seq (say { start = job.id; }) (
      builtins.seq (say {
        done = job.id;
        report = report job;
      }) (done + 1)
    );
in
# The store is reached before the first recipe, so that its failure is not taken for a recipe's.
builtins.seq (builtins.toFile "torchsmith" "") (builtins.foldl' step 0 jobs)
