# The one argument lets a mirror or a checkout stand in for the download; callPackage never fills it.
{ torchsmithNixpkgs ? builtins.fetchTarball {
    url = "https://github.com/NixOS/nixpkgs/archive/@pin.rev@.tar.gz";
    #? if pin.sha256
    sha256 = "@pin.sha256@";
    #? else
    # Nix checks the content only if a hash is stated: torchsmith line update @line@ --rev REV --sha256 HASH
    #? end
  }
}:
