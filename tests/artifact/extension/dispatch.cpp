// Code that is chosen at run time, in the three ways that C and C++ have for it, and code that is not.
#include <cpuid.h>

namespace vision {
namespace ops {
#define WIDE __attribute__((target("avx512f"), noinline))
#define EACH(name) void name(float* a) { for (int i = 0; i < 1024; i += 16) \
  asm volatile("vmovups (%0), %%zmm1\n vaddps %%zmm1, %%zmm1, %%zmm1\n vmovups %%zmm1, (%0)" :: "r"(a + i) : "memory"); }

#ifdef BY_RESOLVER
static WIDE EACH(wide)
static void narrow(float* a) { a[0] += 1; }
extern "C" void (*choose())(float*) {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx512f") ? wide : narrow;
}
void twice(float*) __attribute__((ifunc("choose")));
#elif defined BY_CPUID
WIDE EACH(wide)
static bool has() {
  unsigned a, b, c, d;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & bit_AVX512F);
}
void twice(float* a) { if (has()) wide(a); else a[0] += 1; }
#elif defined BY_ITSELF
void twice(float* a) {
  if (!__builtin_cpu_supports("avx512f")) { a[0] += 1; return; }
  for (int i = 0; i < 1024; i += 16) asm volatile("vmovups (%0), %%zmm1\n vmovups %%zmm1, (%0)" :: "r"(a + i) : "memory");
}
#else
WIDE EACH(wide)
void twice(float* a) { wide(a); }
#endif
void four_times(float* a) { twice(a); twice(a); }
}  // namespace ops
}  // namespace vision
