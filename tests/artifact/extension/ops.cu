#define FIRST 101
#include "ops.h"

namespace vision {
namespace ops {
namespace {
__global__ void scale(float* data, float by) { data[threadIdx.x] *= by; }
double weight(const Shape& of, double by) { return of.w * of.h * by + of.score; }
}  // namespace
void scale_on_gpu(float* data, const Shape& of, double by) { scale<<<1, 32>>>(data, float(weight(of, by))); }
std::vector<Any> cuda_ops() {
  std::vector<Any> all;
  list<102>(all);
  return all;
}
}  // namespace ops
}  // namespace vision
