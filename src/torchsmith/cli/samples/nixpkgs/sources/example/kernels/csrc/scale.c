// One undispatched operation, compiled with the recipe's flags.
#include <stddef.h>

void kernels_scale(float* out, const float* a, size_t count) {
  for (size_t i = 0; i < count; ++i) out[i] = 3.0f * a[i] - 1.0f;
}
