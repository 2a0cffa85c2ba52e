// Reading GGUF and safetensors (with bitsandbytes states) as weights, writing safetensors and .npy.
// Apart from nibble.hpp because files need neither a registry nor a back end.
#ifndef NIBBLE_IO_HPP
#define NIBBLE_IO_HPP

#include <nibble/tensor.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nibble {

/// One tensor of a file. A bitsandbytes 4-bit weight and its statistics are one entry, named after the weight.
struct FileTensor {
  std::string name;
  std::string type;                 ///< as the file or the state names it: "q4_k", "nf4", "i32"
  std::vector<std::int64_t> shape;  ///< logical, outermost first as people write it: [out, in]
  std::uint64_t bytes = 0;          ///< stored, statistics included
  Weight weight{};                  ///< views into the mapped file; valid while the WeightFile lives
  Format own_type = NIBBLE_F32;     ///< result without --to: f32 for GGUF, else the tensor's or the state's dtype
  bool packed_transposed = false;   ///< bitsandbytes stored [1, bytes]: callers expect the transposed view
  /// Ok where `weight` may be dequantized; else the one line that says why not (an integer tensor, an unknown type).
  Status usable;
};

/// A mapped, fully checked weight file. Move-only; the views in its tensors borrow from it.
/// No content is trusted: a file that breaks its format is refused with NIBBLE_BAD_FILE and one line.
class WeightFile {
 public:
  /// Opens GGUF (v2, v3, little-endian) or safetensors, told apart by content.
  NIBBLE_EXPORT static Result<WeightFile> open(const std::string& path);

  NIBBLE_EXPORT WeightFile(WeightFile&&) noexcept;
  NIBBLE_EXPORT WeightFile& operator=(WeightFile&&) noexcept;
  NIBBLE_EXPORT ~WeightFile();

  [[nodiscard]] NIBBLE_EXPORT std::span<const FileTensor> tensors() const;
  /// NIBBLE_NOT_FOUND with the nearest names where there is none of that name.
  [[nodiscard]] NIBBLE_EXPORT Result<const FileTensor*> find(std::string_view name) const;
  /// "GGUF v3", "safetensors".
  [[nodiscard]] NIBBLE_EXPORT std::string_view kind() const;

 private:
  struct State;
  explicit WeightFile(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// Name, type (f32, f16, bf16) and shape (outermost first) of a tensor to be written.
struct OutputTensor {
  std::string name;
  Format type = NIBBLE_F32;
  std::vector<std::int64_t> shape;
};

/// Writes a file piece by piece: the declared tensors' bytes in order, each in as many pieces as the caller likes.
/// Works under a temporary name beside `path`; `finish` renames. Destroyed before `finish`, it leaves nothing.
class TensorWriter {
 public:
  /// `path` ends in .safetensors (any number of tensors) or .npy (exactly one, f32 or f16).
  NIBBLE_EXPORT static Result<TensorWriter> create(const std::string& path, std::span<const OutputTensor> tensors);

  NIBBLE_EXPORT TensorWriter(TensorWriter&&) noexcept;
  NIBBLE_EXPORT TensorWriter& operator=(TensorWriter&&) noexcept;
  NIBBLE_EXPORT ~TensorWriter();

  NIBBLE_EXPORT Status append(std::span<const std::uint8_t> bytes);
  /// Fails where fewer bytes were appended than declared, or where the file cannot be put in place.
  NIBBLE_EXPORT Status finish();

 private:
  struct State;
  explicit TensorWriter(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace nibble

#endif
