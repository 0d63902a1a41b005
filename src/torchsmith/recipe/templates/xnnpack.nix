# XNNPACK also compiles micro-kernels that only its tests and benchmarks link: 3,303 units on x86, 2,355 on ARM. Without
# them their library is not there, and CMake would stop at its name: PyTorch gives it an option from gcc 14 on.
+ ''
  sed -i -e '/set(XNNPACK_BUILD_TESTS OFF/a set(XNNPACK_BUILD_ALL_MICROKERNELS OFF CACHE BOOL "")' \
    -e 's/ microkernels-all//' cmake/Dependencies.cmake
''
