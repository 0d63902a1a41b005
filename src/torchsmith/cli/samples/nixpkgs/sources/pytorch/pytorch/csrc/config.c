// What torch.__config__.show() prints, and a way from Python to the undispatched kernels.
#include <stddef.h>

extern float sum_kernel(const float*, size_t) __asm__("_ZN2at6native7DEFAULT10sum_kernelEPKfm");
extern void scale_kernel(float*, const float*, size_t) __asm__("_ZN2at6native7DEFAULT12scale_kernelEPfPKfm");

const char* torch_build_settings(void) { return BUILD_SETTINGS; }

double torch_ones_sum(long count) {
  float values[256] = {0}, by[256] = {0};
  size_t used = count < 0 ? 0 : count > 256 ? 256 : count;
  scale_kernel(values, by, used);
  return sum_kernel(values, used);
}
