// Ends while plans, tensors and dispatching threads live, and dispatches once more after main: the status is 0, and
// sanitizers see nothing.
// Apart from the other tests because the end of a process can be tested once a process.
#include <nibble/nibble.hpp>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <thread>
#include <vector>

namespace {

constexpr std::int64_t kValues = 1 << 20;  // enough for threads

/// Decodes half-precision ones; false where a value is wrong.
bool decodes() {
  std::vector<std::uint16_t> halves(kValues, 0x3c00);
  const auto values =
      nibble::dequantize(nibble::make_weight(nibble::make_tensor(halves.data(), NIBBLE_F16, {kValues})), NIBBLE_F32);
  return values.ok() && static_cast<const float*>(values->view().data)[kValues - 1] == 1.0f;
}

/// Made before the default registry, so destroyed after everything that was made with it.
struct Last {
  ~Last() {
    if (!decodes()) {
      std::puts("dequantize failed after main");
      std::_Exit(1);
    }
  }
};
Last last;
std::optional<nibble::OwnedTensor> kept_tensor;
std::optional<nibble::Plan> kept_plan;
std::atomic<int> calls = 0;

}  // namespace

int main() {
  if (!decodes()) return 1;
  float value = 0, out = 0;
  nibble_request r = nibble::make_request(NIBBLE_OP_DEQUANTIZE);
  r.weight = nibble::make_weight(nibble::make_tensor(&value, NIBBLE_F32, {1}));
  r.dst = nibble::make_tensor(&out, NIBBLE_F32, {1});
  auto plan = nibble::Registry::create(nibble::Settings{})->plan(r);
  if (!plan) return 1;
  kept_plan = *plan;
  auto tensor = nibble::dequantize(r.weight, NIBBLE_F32);
  if (!tensor) return 1;
  kept_tensor = std::move(*tensor);
  for (int i = 0; i < 2; ++i) {
    std::thread([] {
      for (;;) {
        nibble::Status s;
        float in = 1, to = 0;
        s = nibble::dequantize(nibble::make_weight(nibble::make_tensor(&in, NIBBLE_F32, {1})),
                               nibble::make_tensor(&to, NIBBLE_F32, {1}));
        if (!s || to != 1) std::_Exit(1);
        ++calls;
      }
    }).detach();
  }
  while (calls < 100) std::this_thread::yield();
  return 0;
}
