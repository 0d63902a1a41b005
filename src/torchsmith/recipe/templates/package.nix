#? if shared
# @what@, Python @python@: what the recipes of many cells have in common.
#? else
#? if cuda
# @what@, Python @python@: @gpuTitle@ and @isaTitle@ CPUs, CUDA @cuda@.
#? else
# @what@, Python @python@: @isaTitle@ CPUs, no GPU.
#? end
#? end

#? include nixpkgs.nix

let
  #? include cells.nix
  #? include pkgs.nix
  #? include gpu-number.nix
in

#? if cuda
# A package set whose CUDA is another one must not pass for @cuda@.
assert pkgs.cudaPackages.cudaMajorMinorVersion == "@cuda@";

#? end
#? if core
# What compiles is the argument; the Python package wraps it.
(@base@.override (arguments: {
  @core@ = arguments.@core@.overrideAttrs (oldAttrs: {
    #? include package-build.nix
  });
})).overrideAttrs (oldAttrs: {
#? else
#? if arguments
(@base@.override {
  #? each gpuArguments
  @gpuName@ = [ "@gpuTarget@@gpuTail@" ];
  #? end
}).overrideAttrs (oldAttrs: {
#? else
@base@.overrideAttrs (oldAttrs: {
#? end
#? end
  pname = "@stem@-@cell@";
  #? unless core
  #? include package-build.nix
  #? end

  passthru = oldAttrs.passthru // {
    torchsmith = {
      variant = "@stem@-@cell@";
      line = "@line@";
    };
  };

  meta = oldAttrs.meta // {
    #? if cuda
    description = "@what@ with CUDA @cuda@ for @gpuTitle@ and @isaTitle@ CPUs";
    #? else
    description = "@what@ without CUDA for @isaTitle@ CPUs";
    #? end
    longDescription = ''
      @what@ compiled for one kind of machine:
    #? include package-meta.nix
  };
})
