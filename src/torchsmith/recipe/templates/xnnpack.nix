# XNNPACK, part of torch before 2.14, also compiles micro-kernels that only its tests and benchmarks link: 3,303 units on
# x86, 2,355 on ARM. Their library is switched off. Its name goes too: CMake would stop at an option that gcc 14 gets for it.
+ ''
  sed -i -e '/set(XNNPACK_BUILD_TESTS OFF/a set(XNNPACK_BUILD_ALL_MICROKERNELS OFF CACHE BOOL "")' \
    -e 's/ microkernels-all//' cmake/Dependencies.cmake
''
