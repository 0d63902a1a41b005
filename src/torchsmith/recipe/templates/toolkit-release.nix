#? if cuda
# A package set whose CUDA is another one must not pass for @cuda@.
assert pkgs.cudaPackages.cudaMajorMinorVersion == "@cuda@";

#? end
#? if packageSet
# A package set whose @backend@ is another one must not pass for @backendRelease@.
assert pkgs.lib.versions.majorMinor pkgs.@packageSet@.@releaseOf@.version == "@backendRelease@";

#? end
