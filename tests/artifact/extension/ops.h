// What a companion's code is made of: loops over numbers, reference counts, containers of tensors, text.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace at {
struct Tensor {
  std::shared_ptr<std::vector<float>> storage;
  double scale = 1;
};
}  // namespace at

namespace vision {
namespace ops {
struct Shape {
  double x = 0, y = 0, w = 1, h = 1;
  float score = 0;
};
extern std::atomic<int64_t> calls;

template <typename T, int N>
void affine(T* out, const T* in, T by, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = in[i] * by + T(N);
}
template <typename T, int N>
T dot(const T* a, const T* b, int64_t n) {
  T sum = T(N);
  for (int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}
template <typename T, int N>
int64_t select(T* out, const T* in, T least, int64_t n) {
  calls.fetch_add(N, std::memory_order_acq_rel);
  T kept[64] = {};
  for (int i = 0; i < 64; ++i) kept[i] = in[i] > least ? in[i] * T(N) : T(N + 1);
  for (int i = 0; i < 64; ++i) out[i] = kept[i];
  return calls.load(std::memory_order_acquire) + n;
}
template <int N>
int64_t counted(int64_t by) {
  return calls.fetch_add(by * N) + N;
}
template <int N>
std::vector<at::Tensor> copies(const at::Tensor& of, double by) {
  std::vector<at::Tensor> all;
  for (int i = 0; i < N; ++i) {
    all.push_back(of);
    all.back().scale = of.scale * by + i;
  }
  return all;
}
template <int N>
double overlap(const Shape& a, const Shape& b) {
  double w = a.w * b.x + N, h = a.h * b.y + N;
  if (w < 0 || h < 0) throw std::runtime_error("empty " + std::to_string(w * h));
  return w * h / (a.w * a.h + b.w * b.h - w * h);
}

using Any = void (*)();
template <int N>
void list(std::vector<Any>& all) {
  for (Any one : {Any(affine<float, N>), Any(affine<double, N>), Any(affine<int32_t, N>), Any(dot<float, N>),
                  Any(dot<double, N>), Any(select<float, N>), Any(select<int32_t, N>), Any(counted<N>),
                  Any(copies<N>), Any(overlap<N>)})
    all.push_back(one);
  if constexpr (N > FIRST) list<N - 1>(all);
}
}  // namespace ops
}  // namespace vision
