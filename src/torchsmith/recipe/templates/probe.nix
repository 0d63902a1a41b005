# A question to Nix: every package of the matrix that is below @probed@ carries its name there.

#? include nixpkgs.nix

let
  #? include torch.nix

  marked = name: package: package.overrideAttrs (oldAttrs: { @mark@ = name; });

  pythonPackages = pkgs.@pythonPackages@.overrideScope (pfinal: pprev: {
    torch = marked "@torchName@" customPytorch;
    #? each marks
    @markAttr@ = marked "@markName@" @markBase@;
    #? end
    #? if own
    @probed@ = @base@;
    #? end
  });
in
pythonPackages.@probed@
