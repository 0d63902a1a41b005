# The one argument lets a mirror or a checkout replace the download; callPackage never fills it.
{ torchsmithNixpkgs ? builtins.fetchTarball {
    url = "https://github.com/NixOS/nixpkgs/archive/@pin.rev@.tar.gz";
    #? if pin.sha256
    sha256 = "@pin.sha256@";
    #? else
    # Without a hash Nix takes what the server sends: torchsmith line update @line@ --rev @pin.name@ records it.
    #? end
  }
}:
