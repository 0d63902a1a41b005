#? if ownSource
version = "@version@";
#? include package-source.nix
#? end
#? include gpu-flag.nix

#? include package-configure.nix
