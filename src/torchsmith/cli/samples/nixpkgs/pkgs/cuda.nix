# CUDA package sets, one per release, each a scope of its own.
{ lib }:

let
  # What the set of each release compiles for when nobody says; 12.6 knows no Blackwell.
  capabilities =
    version:
    [ "7.5" "8.0" "8.6" "8.9" "9.0" ]
    ++ lib.optionals (lib.versionAtLeast version "12.8") [ "10.0" "12.0" ]
    ++ lib.optionals (lib.versionAtLeast version "12.9") [ "10.3" "12.1" ];

  redistributables = structured: {
    # Newer package sets have it under the shorter name.
    ${if structured then "cccl" else "cuda_cccl"} = [ "out" "dev" ];
    cuda_cudart = [ "out" "dev" "lib" "static" "stubs" ];
    cuda_cupti = [ "out" "dev" "lib" ];
    cuda_nvcc = [ "out" ];
    cuda_nvml_dev = [ "out" "dev" "lib" ];
    cuda_nvrtc = [ "out" "dev" "lib" ];
    cuda_nvtx = [ "out" "dev" "lib" ];
    cuda_profiler_api = [ "out" "dev" ];
    libcublas = [ "out" "dev" "lib" ];
    libcufft = [ "out" "dev" "lib" ];
    libcufile = [ "out" "dev" "lib" ];
    libcurand = [ "out" "dev" "lib" ];
    libcusolver = [ "out" "dev" "lib" ];
    libcusparse = [ "out" "dev" "lib" ];
    libcusparse_lt = [ "out" "dev" "lib" ];
    libnpp = [ "out" "dev" "lib" ];
    libnvjitlink = [ "out" "dev" "lib" ];
  };

  # CUDA 13 came out for ARM servers and Thor; packages for Orin end with 12.9.
  noOrin =
    final: version: lib.versionAtLeast version "13" && lib.elem "8.7" (final.config.cudaCapabilities or [ ]);

  set = structured: version: final: scope (contents (redistributables structured) version final);

  # A set whose members see each other's overrides.
  scope =
    members:
    let
      self = members self // {
        overrideScope = change: scope (lib.extends change members);
      };
    in
    self;

  contents =
    redistributables: version: final: self:
    {
      cudaMajorMinorVersion = version;
      cudaMajorVersion = lib.versions.major version;
      cudaVersion = version;
      cudaAtLeast = lib.versionAtLeast version;
      cudaOlder = lib.versionOlder version;
      backendStdenv = final.stdenv // { name = "cuda-stdenv"; };
      flags =
        let
          asked = final.config.cudaCapabilities or [ ];
          jetson = lib.filter (one: lib.elem one [ "8.7" "11.0" ]) asked;
          chosen = if asked == [ ] then capabilities version else asked;
          plain = map (lib.replaceStrings [ "." ] [ "" ]) chosen;
        in
        # nixpkgs' words, because programs read them.
        if jetson != [ ] && !final.stdenv.hostPlatform.isAarch64 then
          throw "Requested Jetson CUDA capabilities (${builtins.toJSON jetson}) require hostPlatform (${final.stdenv.system}) to be aarch64-linux"
        else
          {
            cudaCapabilities = chosen;
            isJetsonBuild = jetson != [ ];
            cmakeCudaArchitecturesString = lib.concatStringsSep ";" plain;
            gencodeString = lib.concatStringsSep " " (
              map (one: "-gencode=arch=compute_${one},code=sm_${one}") plain
              ++ lib.optional (final.config.cudaForwardCompat or true) "-gencode=arch=compute_${lib.last plain},code=compute_${lib.last plain}"
            );
          };
      cudnn = final.callPackage (
        { stdenv }:
        stdenv.mkDerivation {
          pname = "cuda${self.cudaMajorMinorVersion}-cudnn";
          version = "9.13.0";
          outputs = [ "out" "dev" "lib" ];
          meta.license = lib.licenses.nvidiaCuda;
        }
      ) { };
      nccl = final.callPackage (
        { stdenv }:
        stdenv.mkDerivation {
          pname = "cuda${self.cudaMajorMinorVersion}-nccl";
          version = "2.28.7-1";
          outputs = [ "out" "dev" "static" ];
          makeFlags = [ "NVCC_GENCODE=${self.flags.gencodeString}" ];
          buildInputs = [ self.cuda_cudart ];
          meta.license = lib.licenses.bsd3;
        }
      ) { };
      cudatoolkit = final.callPackage (
        { stdenv }:
        stdenv.mkDerivation {
          pname = "cuda-merged";
          inherit version;
          paths = map (name: self.${name}) (lib.attrNames redistributables);
          meta.license = lib.licenses.nvidiaCuda;
        }
      ) { };
    }
    // lib.mapAttrs (
      pname: outputs:
      final.callPackage (
        { stdenv }:
        stdenv.mkDerivation {
          pname = "cuda${self.cudaMajorMinorVersion}-${pname}";
          inherit version outputs;
          meta = {
            license = [ lib.licenses.nvidiaCudaRedist ];
          }
          // lib.optionalAttrs (noOrin final version) { platforms = [ "x86_64-linux" ]; };
        }
      ) { }
    ) redistributables;

  slug = version: "cudaPackages_${lib.replaceStrings [ "." ] [ "_" ] version}";
in
{
  sets =
    { cudas, newestCuda, structured ? false, ... }: final:
    let
      present = map slug cudas;
    in
    lib.listToAttrs (map (version: lib.nameValuePair (slug version) (set structured version final)) cudas)
    // lib.genAttrs (lib.subtractLists present (map slug [ "12.4" "12.5" ])) (
      name: throw "${name} has been removed from Nixpkgs, as it is unmaintained upstream"
    )
    // {
      cudaPackages_12 = final.cudaPackages_12_8;
      cudaPackages = final.cudaPackages_12;
      cudatoolkit = final.cudaPackages.cudatoolkit;
    }
    // lib.optionalAttrs (newestCuda != null) { cudaPackages_13 = final.${slug newestCuda}; };
}
