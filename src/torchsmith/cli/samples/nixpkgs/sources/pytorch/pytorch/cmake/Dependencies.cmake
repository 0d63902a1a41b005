# What PyTorch sets of XNNPACK's options, and the targets to which it adds a compiler option.
set(XNNPACK_BUILD_TESTS OFF CACHE BOOL "")
foreach(target IN ITEMS XNNPACK microkernels-prod microkernels-all)
  target_compile_options(${target} PRIVATE -Wno-error=incompatible-pointer-types)
endforeach()
