{
  avx2 = { flags = [ "-mavx2" "-mfma" "-mf16c" ]; platform = "x86_64-linux"; };
  armv9 = { flags = [ "-march=armv9-a+sve+sve2" ]; platform = "aarch64-linux"; };
}
