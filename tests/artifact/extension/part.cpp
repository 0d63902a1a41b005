// One unit of many: a loop whose instructions are those that the compiler was told of, and its own name.
#include <cstdint>

namespace vision {
namespace ops {
double area(const double* by, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += by[i] * by[i];
  return sum;
}
void scaled(float* out, const float* in, float by) {
  for (int i = 0; i < 64; ++i) out[i] = in[i] * by + 1;
}
}  // namespace ops
}  // namespace vision
extern "C" double PyInit__C(const double* by) { return vision::ops::area(by, 8); }
