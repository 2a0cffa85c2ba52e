// Opening files and finding tensors in them: what is no file, what is too large for 32 bits, names nearly right.
// Apart from the containers' tests because none of it depends on the container.
#include "tests/unit/io_files.h"

#include "io/text.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace nibble::test {
namespace {

Status open_status(const std::string& path) { return WeightFile::open(path).status(); }

TEST(WeightFile, RefusesWhatIsNoFile) {
  const Folder folder;
  expect_line_with(open_status(folder / "absent"), NIBBLE_NOT_FOUND, {"absent'", "No such file"});
  folder.put("file", "x");
  expect_line_with(open_status(folder / "file/inside"), NIBBLE_NOT_FOUND, {"inside'", "Not a directory"});
  expect_line_with(open_status(folder / ""), NIBBLE_IO_ERROR, {"is a directory"});
  expect_line_with(open_status(folder.put("empty", "")), NIBBLE_BAD_FILE, {"empty'", "is empty"});
  expect_line_with(open_status("/dev/zero"), NIBBLE_IO_ERROR, {"'/dev/zero'", "not a regular file"});
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  expect_line_with(open_status(folder / "pipe"), NIBBLE_IO_ERROR, {"pipe'", "not a regular file"});
  expect_line_with(open_status(folder.put("line\nbreak", "")), NIBBLE_BAD_FILE, {"line\\x0abreak"});
}

/// Runs `body` in a child that is not root, for whom permissions hold; true where it returned true.
bool as_nobody(const std::function<bool()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    constexpr uid_t kNobody = 65534;
    if (::geteuid() == 0 && ::setuid(kNobody) != 0) ::_exit(2);
    ::_exit(body() ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST(WeightFile, RefusesWhatItMayNotRead) {
  const Folder folder;
  ASSERT_EQ(::chmod((folder / "").c_str(), 0755), 0);
  const std::string path = folder.put("secret", "x");
  ASSERT_EQ(::chmod(path.c_str(), 0), 0);
  EXPECT_TRUE(as_nobody([&] {
    const Status status = open_status(path);
    return status.code() == NIBBLE_IO_ERROR && status.message().find("secret': Permission denied") != std::string::npos;
  }));
}

TEST(WeightFile, FindsByNameAndNamesNearOnes) {
  GgufFile source;
  for (const char* name :
       {"blk.0.attn_q.weight", "blk.0.attn_k.weight", "blk.1.attn_q.weight", "blk.1.attn_k.weight", "output"}) {
    source.tensors.push_back({name, {1}, NIBBLE_F32, floats({1})});
  }
  const WeightFile file = open_good(build(source));
  EXPECT_EQ(*file.find("output"), &file.tensors()[4]);
  expect_line_with(file.find("outptu").status(), NIBBLE_NOT_FOUND, {"'outptu'", "'output'"});
  const std::string near = file.find("blk.0.attn_q.wieght").status().message();
  EXPECT_NE(near.find("such as 'blk.0.attn_q.weight'"), std::string::npos) << near;  // the nearest first
  EXPECT_EQ(near.find("output"), std::string::npos) << near;
  const std::string part = file.find("attn").status().message();
  EXPECT_EQ(std::count(part.begin(), part.end(), ','), 2) << part;  // three names
  expect_line_with(file.find("zzzzzzzz").status(), NIBBLE_NOT_FOUND, {"'zzzzzzzz'", "5 in the file"});
  expect_line_with(file.find("").status(), NIBBLE_NOT_FOUND, {"''"});
  expect_line_with(file.find(std::string(100000, 'x')).status(), NIBBLE_NOT_FOUND, {"xxx...'"});
}

TEST(WeightFile, ViewsOutliveAMove) {
  WeightFile file = open_good(build(std::vector<Stored>{{"a", "F32", {1}, floats({5})}}));
  const FileTensor* tensor = &tensor_of(file, "a");
  WeightFile moved = std::move(file);
  file = open_good(build(std::vector<Stored>{{"b", "F32", {1}, floats({6})}}));
  EXPECT_EQ(&tensor_of(moved, "a"), tensor);
  EXPECT_EQ(bytes_at(tensor->weight.packed, 4), floats({5}));
  EXPECT_EQ(bytes_at(tensor_of(file, "b").weight.packed, 4), floats({6}));
}

/// `start`, then a hole up to the end, which reads `end`: a file of more than 4 GiB that takes a few blocks.
std::string put_sparse(const Folder& folder, const std::string& start, std::uint64_t size, const std::string& end) {
  std::string path = folder.put("sparse", start);
  const int file = ::open(path.c_str(), O_WRONLY);
  EXPECT_EQ(::ftruncate(file, static_cast<off_t>(size)), 0);
  EXPECT_EQ(::pwrite(file, end.data(), end.size(), static_cast<off_t>(size - end.size())),
            static_cast<ssize_t>(end.size()));
  ::close(file);
  return path;
}

constexpr std::uint64_t kLarge = (5ull << 30) + 96;  // more than 32 bits, a multiple of 32

TEST(WeightFile, ReadsGgufBeyond4GiB) {
  GgufFile source;
  source.tensors = {{"large", {1ull << 20, 5120}, NIBBLE_I8, "", 0},
                    {"row", {1ull << 32}, NIBBLE_Q8_0, "", kLarge},
                    {"last", {2}, NIBBLE_F32, "", kLarge + (1ull << 32) / 32 * 34}};
  const std::string start = build(source);
  const std::uint64_t size = start.size() + *source.tensors[2].offset + 8;
  const Folder folder;
  const auto file = WeightFile::open(put_sparse(folder, start, size, floats({8, 9})));
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(tensor_of(*file, "large").bytes, 5ull << 30);
  EXPECT_EQ(tensor_of(*file, "row").bytes, (1ull << 27) * 34);
  EXPECT_EQ(tensor_of(*file, "row").weight.packed.shape[0], 1ll << 32);
  EXPECT_EQ(bytes_at(tensor_of(*file, "last").weight.packed, 8), floats({8, 9}));
}

TEST(WeightFile, ReadsSafetensorsBeyond4GiB) {
  const std::string start =
      safetensors(R"({"large":{"dtype":"U8","shape":[1048576,5120],"data_offsets":[0,5368709120]},)"
                  R"("last":{"dtype":"F32","shape":[2],"data_offsets":[5368709120,5368709128]}})");
  const Folder folder;
  const auto file = WeightFile::open(put_sparse(folder, start, start.size() + 5368709128ull, floats({8, 9})));
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(bytes_at(tensor_of(*file, "last").weight.packed, 8), floats({8, 9}));
}

TEST(WeightFile, RefusesAHeaderBeyondTheFormatsBound) {
  constexpr std::uint64_t kLength = 100'000'001;
  const Folder folder;
  const Status status = open_status(put_sparse(folder, u64(kLength) + "{", 8 + kLength, "}"));
  expect_line_with(status, NIBBLE_BAD_FILE, {"header length is 100000001", "at most 100000000"});
}

}  // namespace
}  // namespace nibble::test
