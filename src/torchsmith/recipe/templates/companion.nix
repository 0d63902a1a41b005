#? if toolkit
# @what@ for PyTorch @torch@, Python @python@: @gpuTitle@ and @isaTitle@ CPUs, @toolkit@.
#? else
# @what@ for PyTorch @torch@, Python @python@: @isaTitle@ CPUs, no GPU.
#? end

#? include nixpkgs.nix

let
  #? include torch.nix
  #? include gpu-number.nix
  #? if opencvFix

  # OpenCV 4.12.0 comes in through ffmpeg's frei0r plugins and needs two later commits for CUDA 13; a nixpkgs that
  # has them keeps its own.
  opencvMended = pkgs.opencv.version != "4.12.0" || pkgs.lib.any
    (patch: pkgs.lib.hasInfix "@patch.opencv.rev@" (toString (patch.urls or [ ])))
    (pkgs.opencv.patches or [ ]);
  opencvForCuda13 = if opencvMended then pkgs.opencv else pkgs.opencv.overrideAttrs (oldAttrs: {
    patches = (oldAttrs.patches or [ ]) ++ [
      (pkgs.fetchpatch {
        name = "@patch.opencv.name@";
        url = "@patch.opencv.url@";
        hash = "@patch.opencv.hash@";
      })
    ];
    # nixpkgs unpacks only modules/ of opencv_contrib, hence two leading folders to strip.
    postPatch = (oldAttrs.postPatch or "") + ''
      patch -p2 -d opencv_contrib < ${
        pkgs.fetchpatch {
          name = "@patch.opencv-contrib.name@";
          url = "@patch.opencv-contrib.url@";
          hash = "@patch.opencv-contrib.hash@";
        }
      }
    '';
  });

  ffmpegForCuda13 = pkgs.ffmpeg_6-full.override {
    frei0r = pkgs.frei0r.override { opencv = opencvForCuda13; };
  };

  # Newer releases in nixpkgs take no ffmpeg, and need no fix.
  withFfmpegForCuda13 = package: package.override (arguments:
    pkgs.lib.optionalAttrs (arguments ? ffmpeg_6-full) { ffmpeg_6-full = ffmpegForCuda13; });
  #? end
  #? if stack

  # One torch below everything here, also where nixpkgs brings it in by another package; what else the matrix
  # builds for this cell is what its own recipes build.
  pythonPackages = pkgs.@pythonPackages@.overrideScope (pfinal: pprev: {
    torch = customPytorch;
    #? each stack

    @attr@ =
      #? include companion-package.nix
    #? end
  });
  #? end
in

#? include toolkit-release.nix
#? if stack
pythonPackages.@attr@
#? else
#? include companion-package.nix
#? end
