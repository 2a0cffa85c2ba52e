// Barriers in shared memory and the copies of any size that they count, which devices have from 9.0 on.
// Apart from mma.h because older devices have none of these instructions.
#ifndef NIBBLE_BACKENDS_CUDA_BULK_H
#define NIBBLE_BACKENDS_CUDA_BULK_H

#include "backends/gpu/device.h"

#include <cstdint>

namespace nibble::cuda {

/// A barrier in shared memory. A phase of it ends when as many arrived as init() says and all bytes have come.
class CopyBarrier {
 public:
  __device__ void init(int arrivals) {
#if NIBBLE_BULK_COPIES
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(address()), "r"(arrivals) : "memory");
#endif
  }
  __device__ void arrive() {
#if NIBBLE_BULK_COPIES
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(address()) : "memory");
#endif
  }
  /// Arrives, and lets this phase wait for `bytes` of copies.
  __device__ void arrive_expecting(int bytes) {
#if NIBBLE_BULK_COPIES
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address()), "r"(bytes) : "memory");
#endif
  }
  /// Arrives when the copies that this thread has started so far (mma.h) are done.
  __device__ void arrive_after_copies() {
#if NIBBLE_BULK_COPIES
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(address()) : "memory");
#endif
  }
  /// Waits for the end of phase `phase`, the first being 0; it must not be two behind.
  __device__ void wait(int phase) {
#if NIBBLE_BULK_COPIES
    std::uint32_t done = 0;
    while (done == 0) {
      asm volatile(
          "{.reg .pred done; mbarrier.try_wait.parity.shared::cta.b64 done, [%1], %2; selp.u32 %0, 1, 0, done;}"
          : "=r"(done)
          : "r"(address()), "r"(phase & 1)
          : "memory");
    }
#endif
  }
  /// Starts a copy of a multiple of 16 bytes, both ends aligned to 16.
  __device__ void copy(std::uint8_t* shared, const void* global, int bytes) {
#if NIBBLE_BULK_COPIES
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                     static_cast<std::uint32_t>(__cvta_generic_to_shared(shared))),
                 "l"(global), "r"(bytes), "r"(address())
                 : "memory");
#endif
  }

 private:
  [[nodiscard]] __device__ std::uint32_t address() const {
    return static_cast<std::uint32_t>(__cvta_generic_to_shared(&state_));
  }
  std::uint64_t state_;
};

/// Lets copies see the barriers that this thread made.
__device__ inline void show_barriers() {
#if NIBBLE_BULK_COPIES
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

}  // namespace nibble::cuda

#endif
