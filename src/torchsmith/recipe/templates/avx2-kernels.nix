#? if avx2Kernels
# On CPUs with AVX-512 torch runs the AVX2 form of most of its dispatched kernels. The cell's flags alone would let GCC use
# AVX-512 in them too, which makes some of them 10 to 20 % slower.
+ ''
  sed -i 's/-mavx2 -mfma/@avx2Kernels@ &/' cmake/Codegen.cmake
''
#? end
