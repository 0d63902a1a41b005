# @title@.

{ torchsmithNixpkgs ? builtins.fetchTarball {
    url = "https://github.com/NixOS/nixpkgs/archive/@pin.rev@.tar.gz";
    #? if pin.sha256
    sha256 = "@pin.sha256@";
    #? end
  }
  # These packages serve both platforms, so they follow the machine that asks.
, torchsmithSystem ? builtins.currentSystem
}:

let
  pkgs = import torchsmithNixpkgs {
    system = torchsmithSystem;
    config = {
      allowUnfree = true; # NVIDIA's licence
      cudaSupport = true;
    };
    overlays = [ ];
  };

  # The minor version is spelled out: a shorter name follows whichever release is newest.
  cuda = pkgs.@cudaSet@;
in

assert cuda.cudaMajorMinorVersion == "@cuda@";

cuda.@attr@.overrideAttrs (oldAttrs: {
  passthru = (oldAttrs.passthru or { }) // {
    # For recipes that build against this CUDA: one package set, so nothing of another nixpkgs mixes in.
    torchsmithPkgs = pkgs;
    torchsmith = {
      package = "@name@";
      cuda = "@cuda@";
    };
  };
  meta = (oldAttrs.meta or { }) // {
    description = "@title@";
    longDescription = ''
      @about@
    '';
    platforms = [
      "x86_64-linux"
      "aarch64-linux"
    ];
  };
})
