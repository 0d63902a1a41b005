# PyTorch 2.10.0 for AVX2 CPUs, from its own source; the hash was copied from an older tool.
{ python3Packages, fetchFromGitHub }:
let flags = "-mavx2 -mfma -mf16c"; in
(python3Packages.torch.override { cudaSupport = false; }).overrideAttrs (old: {
  pname = "pytorch-python313-cpu-avx2";
  version = "2.10.0";
  src = fetchFromGitHub {
    owner = "pytorch";
    repo = "pytorch";
    rev = "v2.10.0";
    fetchSubmodules = true;
    hash = "sha256-0am8mx0mq3hqsk1g99a04a4fdf865g93568qr1f247pl11r2jldl";
  };
  patches = [ ];
  PYTORCH_BUILD_VERSION = "2.10.0";
  preConfigure = (old.preConfigure or "") + ''
    export CXXFLAGS="${flags} $CXXFLAGS"
    export CFLAGS="${flags} $CFLAGS"
  '';
  meta = old.meta // { platforms = [ "x86_64-linux" ]; };
})
