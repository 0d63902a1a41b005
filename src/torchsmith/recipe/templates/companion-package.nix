#? if arguments
(@base@.override {
  #? if torchArgument
  torch = customPytorch;
  #? end
  #? each gpuArguments
  @gpuName@ = [ "@gpuTarget@@gpuTail@" ];
  #? end
}).overrideAttrs (oldAttrs: {
#? else
@base@.overrideAttrs (oldAttrs: {
#? end
  pname = "@stem@-@cell@";
  #? if ownSource
  #? if sameVersion
  version = customPytorch.version; # the two are released together
  #? else
  version = "@version@";
  #? end
  #? include package-source.nix
  #? end
  #? include gpu-flag.nix

  # The dev output alone would be propagated otherwise, and `import torch` would fail.
  propagatedBuildInputs = (oldAttrs.propagatedBuildInputs or [ ]) ++ [ customPytorch.out ];

  #? include package-configure.nix

  passthru = oldAttrs.passthru // {
    torch = customPytorch;
    # Computed before propagatedBuildInputs was extended; interpreters are composed from it.
    requiredPythonModules = oldAttrs.passthru.requiredPythonModules ++ [ customPytorch.out ];
    torchsmith = {
      variant = "@stem@-@cell@";
      line = "@line@";
    };
  };
  #? unless bundled

  meta = oldAttrs.meta // {
    #? if toolkit
    description = "@what@ for PyTorch @torch@ with @toolkit@, @gpuTitle@ and @isaTitle@ CPUs";
    #? else
    description = "@what@ for PyTorch @torch@ without CUDA, @isaTitle@ CPUs";
    #? end
    longDescription = ''
      #? if lineVersion
      @what@, the release that belongs to PyTorch @torch@, with that PyTorch as its dependency:
      #? else
      @what@ of this nixpkgs, with PyTorch @torch@ as its dependency:
      #? end
    #? include package-meta.nix
  };
  #? end
})@end@
