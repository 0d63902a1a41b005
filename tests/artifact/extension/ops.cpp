#define FIRST 1
#include "ops.h"

namespace vision {
namespace ops {
std::atomic<int64_t> calls{0};
namespace {
const std::string name = "extension " + std::to_string(FIRST);
double area(const std::vector<Shape>& shapes) {
  double sum = 0;
  for (const Shape& one : shapes) sum += one.w * one.h * one.score;
  return sum;
}
}  // namespace
std::vector<Any> cpu_ops() {
  std::vector<Any> all;
  list<2>(all);
  return all;
}
double total(const std::vector<Shape>& shapes) {
  calls += static_cast<int64_t>(name.size());
  return area(shapes);
}
}  // namespace ops
}  // namespace vision
extern "C" void* PyInit__C() { return new std::vector<vision::ops::Any>(vision::ops::cpu_ops()); }
