# torchsmith: format=1 package=cudnn-13_0 cuda=13.0 content=sha256:5a6b6365c7f7800de9699492895eeda18f00d57fc8d7a2699500e08a0946d765
# cuDNN for CUDA 13.0.

{ torchsmithNixpkgs ? builtins.fetchTarball {
    url = "https://github.com/NixOS/nixpkgs/archive/6a030d535719c5190187c4cec156f335e95e3211.tar.gz";
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
  cuda = pkgs.cudaPackages_13_0;
in

assert cuda.cudaMajorMinorVersion == "13.0";

cuda.cudnn.overrideAttrs (oldAttrs: {
  passthru = (oldAttrs.passthru or { }) // {
    # For recipes that build against this CUDA: one package set, so nothing of another nixpkgs mixes in.
    torchsmithPkgs = pkgs;
    torchsmith = {
      package = "cudnn-13_0";
      cuda = "13.0";
    };
  };
  meta = (oldAttrs.meta or { }) // {
    description = "cuDNN for CUDA 13.0";
    longDescription = ''
      NVIDIA's library of deep-learning primitives.
    '';
    platforms = [
      "x86_64-linux"
      "aarch64-linux"
    ];
  };
})
