#? if toolkit
# @what@, Python @python@: @gpuTitle@ and @isaTitle@ CPUs, @toolkit@.
#? else
# @what@, Python @python@: @isaTitle@ CPUs, no GPU.
#? end

#? include nixpkgs.nix

let
  #? include pkgs.nix
  #? include gpu-number.nix
in

#? include toolkit-release.nix
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
    #? if toolkit
    description = "@what@ with @toolkit@ for @gpuTitle@ and @isaTitle@ CPUs";
    #? else
    description = "@what@ without CUDA for @isaTitle@ CPUs";
    #? end
    longDescription = ''
      @what@ compiled for one kind of machine:
    #? include package-meta.nix
  };
})
