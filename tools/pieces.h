// Weights cut into pieces of bounded size, and memory on any device to work on them.
// Apart from the subcommands because dequantize and verify both go through files of any size.
#ifndef NIBBLE_TOOLS_PIECES_H
#define NIBBLE_TOOLS_PIECES_H

#include <nibble/nibble.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace nibble::cli {

/// Most values that are decoded at once; at four bytes each, 64 MiB.
inline constexpr std::int64_t kPieceValues = std::int64_t{1} << 24;

/// Values [first, first + count) of a weight, in the order in which they are stored.
struct Piece {
  std::int64_t first = 0;
  std::int64_t count = 0;
};

/// Pieces of at most `most` values that begin where blocks and nested blocks do; one piece where the weight is smaller
/// or its blocks are larger. None for a weight without values.
std::vector<Piece> pieces_of(const Weight& weight, std::int64_t most = kPieceValues);

/// The piece as a weight of its own: the whole weight as it is, else in one dimension. Borrows the weight's data.
Weight slice(const Weight& weight, Piece piece);

/// Memory on a device, 64-byte aligned, freed with the object. Ends the command where the device refuses.
class Buffer {
 public:
  Buffer(const Registry& registry, Device device, std::uint64_t bytes);
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&&) = delete;
  ~Buffer();

  [[nodiscard]] void* data() const { return data_; }
  void upload(std::span<const std::uint8_t> bytes);
  /// The first `bytes` bytes: the memory itself on the host, else a copy in `scratch`, after all work is done.
  [[nodiscard]] std::span<const std::uint8_t> read(std::uint64_t bytes, std::vector<std::uint8_t>& scratch) const;

 private:
  void check(nibble_status status, const char* line, const char* what) const;

  const nibble_memory* memory_;  ///< nullptr: the host's own
  Device device_;
  void* data_ = nullptr;
};

/// A weight on a device: the host's own data where the device is the host, else copies that live with the object.
class PlacedWeight {
 public:
  PlacedWeight(const Registry& registry, const Weight& host, Device device);
  [[nodiscard]] const Weight& view() const { return weight_; }

 private:
  Weight weight_;
  std::vector<Buffer> copies_;
};

}  // namespace nibble::cli

#endif
