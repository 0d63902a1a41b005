# The capabilities that PyTorch compiles its kernels for on x86, and the flags of each.
list(APPEND CPU_CAPABILITY_NAMES "AVX512")
list(APPEND CPU_CAPABILITY_FLAGS "-mavx512f -mavx512bw -mavx512vl -mavx512dq -mfma")
list(APPEND CPU_CAPABILITY_NAMES "AVX2")
list(APPEND CPU_CAPABILITY_FLAGS "-mavx2 -mfma -mf16c")
