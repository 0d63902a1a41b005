// Two kernels, compiled once for every CPU capability, under the names that C++ gives PyTorch's.
#include <stddef.h>

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
#define KERNEL(rest) __asm__("_ZN2at6native" TEXT(CPU_CAPABILITY) rest)

float sum_kernel(const float* values, size_t count) KERNEL("10sum_kernelEPKfm");
void scale_kernel(float* values, const float* by, size_t count) KERNEL("12scale_kernelEPfPKfm");

float sum_kernel(const float* values, size_t count) {
  float total[16] = {0};
  size_t i = 0;
  for (; i + 16 <= count; i += 16)
    for (int lane = 0; lane < 16; ++lane) total[lane] += values[i + lane];
  for (; i < count; ++i) total[0] += values[i];
  float all = 0;
  for (int lane = 0; lane < 16; ++lane) all += total[lane];
  return all;
}

static int calls;

void scale_kernel(float* values, const float* by, size_t count) {
  __atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED);  // on ARM this shows which flags the compiler got
  for (size_t i = 0; i < count; ++i) values[i] = values[i] * by[i] + 1.0f;
}
