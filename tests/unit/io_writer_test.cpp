// TensorWriter: what it writes, what it refuses, and that a failure leaves nothing behind.
// Apart from the readers' tests because most of it is about files, not formats.
#include "tests/unit/io_files.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace nibble::test {
namespace {

std::span<const std::uint8_t> span_of(std::string_view bytes) {
  return {reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()};
}

Status write(const std::string& path, const std::vector<OutputTensor>& tensors, std::string_view bytes) {
  auto writer = TensorWriter::create(path, tensors);
  if (!writer) return writer.status();
  if (Status status = writer->append(span_of(bytes)); !status) return status;
  return writer->finish();
}

const std::vector<OutputTensor> kOne = {{"t", NIBBLE_F32, {2}}};

TEST(Writer, SafetensorsComeBackThroughTheReader) {
  const Folder folder;
  const std::vector<OutputTensor> tensors = {{"a\n\"\xc3\xa9", NIBBLE_F32, {2, 1}},
                                             {"half", NIBBLE_F16, {3}},
                                             {"empty", NIBBLE_F32, {0, 4}},
                                             {"scalar", NIBBLE_BF16, {}}};
  auto writer = TensorWriter::create(folder / "out.safetensors", tensors);
  ASSERT_TRUE(writer.ok()) << writer.status().message();
  const std::string bytes = floats({1, 2}) + "abcdef" + "yz";
  for (const char c : bytes) ASSERT_TRUE(writer->append(span_of({&c, 1})).ok());  // in pieces that heed no border
  ASSERT_TRUE(writer->finish().ok());
  EXPECT_EQ(folder.names(), std::vector<std::string>{"out.safetensors"});

  const std::string all = read_all(folder / "out.safetensors");
  EXPECT_EQ((all.size() - bytes.size()) % 8, 0u);  // where the data starts
  const auto file = WeightFile::open(folder / "out.safetensors");
  ASSERT_TRUE(file.ok()) << file.status().message();
  ASSERT_EQ(file->tensors().size(), 4u);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    EXPECT_EQ(file->tensors()[i].name, tensors[i].name);
    EXPECT_EQ(file->tensors()[i].shape, tensors[i].shape);
    EXPECT_EQ(file->tensors()[i].weight.packed.format, tensors[i].type);
  }
  EXPECT_EQ(bytes_at(file->tensors()[0].weight.packed, 8), floats({1, 2}));
  EXPECT_EQ(bytes_at(file->tensors()[1].weight.packed, 6), "abcdef");
  EXPECT_EQ(bytes_at(file->tensors()[3].weight.packed, 2), "yz");
}

TEST(Writer, SafetensorsMayHoldNothing) {
  const Folder folder;
  ASSERT_TRUE(write(folder / "none.safetensors", {}, "").ok());
  const auto file = WeightFile::open(folder / "none.safetensors");
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_TRUE(file->tensors().empty());
}

TEST(Writer, NpyIsVersion1WithItsDataAligned) {
  struct Case {
    OutputTensor tensor;
    std::string dict;
  };
  const Case cases[] = {
      {{"t", NIBBLE_F32, {2, 3}}, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }"},
      {{"t", NIBBLE_F16, {5}}, "{'descr': '<f2', 'fortran_order': False, 'shape': (5,), }"},
      {{"t", NIBBLE_F32, {}}, "{'descr': '<f4', 'fortran_order': False, 'shape': (), }"},
      {{"t", NIBBLE_F32, {0, 7}}, "{'descr': '<f4', 'fortran_order': False, 'shape': (0, 7), }"},
  };
  const std::size_t sizes[] = {24, 10, 4, 0};
  const Folder folder;
  for (std::size_t i = 0; i < std::size(cases); ++i) {
    const std::string data(sizes[i], 'd');
    ASSERT_TRUE(write(folder / "out.npy", {cases[i].tensor}, data).ok());
    const std::string all = read_all(folder / "out.npy");
    EXPECT_EQ(all.substr(0, 8), std::string("\x93NUMPY\x01\x00", 8));
    const std::size_t length = static_cast<std::uint8_t>(all[8]) + 256u * static_cast<std::uint8_t>(all[9]);
    EXPECT_EQ((10 + length) % 64, 0u);
    EXPECT_EQ(all.size(), 10 + length + data.size());
    const std::string header = all.substr(10, length);
    EXPECT_EQ(header.substr(0, cases[i].dict.size()), cases[i].dict);
    EXPECT_EQ(header.find_first_not_of(' ', cases[i].dict.size()), length - 1);
    EXPECT_EQ(header.back(), '\n');
    EXPECT_EQ(all.substr(10 + length), data);
  }
}

TEST(Writer, RefusesWhatItCannotDescribe) {
  struct Case {
    std::string name;
    std::vector<OutputTensor> tensors;
    std::vector<std::string> words;
  };
  const OutputTensor& t = kOne[0];
  const Case cases[] = {
      {"o.bin", kOne, {"o.bin", ".safetensors or .npy"}},
      {"o", kOne, {".safetensors or .npy"}},
      {"o.npy.gz", kOne, {".safetensors or .npy"}},
      {"o.npy", {}, {"0 tensors", "expected one"}},
      {"o.npy", {t, t}, {"2 tensors", "expected one", ".safetensors"}},
      {"o.npy", {{"t", NIBBLE_BF16, {2}}}, {"'t'", "bf16", "f32 or f16", ".safetensors"}},
      {"o.npy", {{"t", NIBBLE_F32, std::vector<std::int64_t>(30000, 1)}}, {"'t'", "30000 dimensions"}},
      {"o.safetensors", {t, t}, {"two tensors", "'t'"}},
      {"o.safetensors", {{"t", NIBBLE_Q4_K, {256}}}, {"'t'", "q4_k", "f32, f16 or bf16"}},
      {"o.safetensors", {{"t", NIBBLE_I8, {256}}}, {"'t'", "i8", "f32, f16 or bf16"}},
      {"o.safetensors", {{"t", NIBBLE_F32, {-1}}}, {"'t'", "[-1]", "from 0"}},
      {"o.safetensors", {{"t", NIBBLE_F32, {1ll << 61}}}, {"'t'", "63 bits"}},
      {"o.safetensors", {{"a", NIBBLE_F16, {1ll << 61}}, {"b", NIBBLE_F16, {1ll << 61}}}, {"63 bits"}},
      {"o.safetensors", {{"__metadata__", NIBBLE_F32, {1}}}, {"__metadata__"}},
      {"o.safetensors", {{"\xff", NIBBLE_F32, {1}}}, {"\\xff", "UTF-8"}},
  };
  const Folder folder;
  for (const Case& c : cases) {
    expect_line_with(TensorWriter::create(folder / c.name, c.tensors).status(), NIBBLE_INVALID_ARGUMENT, c.words);
  }
  EXPECT_TRUE(folder.names().empty());
}

TEST(Writer, RefusesTargetsThatARenameWouldReplace) {
  const Folder folder;
  std::filesystem::create_directory(folder / "d.npy");
  std::filesystem::create_symlink("/dev/full", folder / "full.npy");
  expect_line_with(TensorWriter::create(folder / "d.npy", kOne).status(), NIBBLE_IO_ERROR, {"d.npy", "directory"});
  expect_line_with(TensorWriter::create(folder / "full.npy", kOne).status(), NIBBLE_IO_ERROR,
                   {"full.npy", "not a regular file"});
  expect_line_with(TensorWriter::create(folder / "no/o.npy", kOne).status(), NIBBLE_IO_ERROR,
                   {"no/o.npy", "No such file or directory"});
  EXPECT_EQ(folder.names().size(), 2u);
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "full.npy"));
}

TEST(Writer, ReplacesAFileOnlyWhenFinished) {
  const Folder folder;
  folder.put("o.npy", "old");
  {
    auto writer = TensorWriter::create(folder / "o.npy", kOne);
    ASSERT_TRUE(writer.ok());
    ASSERT_TRUE(writer->append(span_of(floats({1}))).ok());
    EXPECT_EQ(read_all(folder / "o.npy"), "old");
    EXPECT_EQ(folder.names().size(), 2u);
    auto moved = std::move(*writer);  // the temporary file goes with it
  }
  EXPECT_EQ(folder.names(), std::vector<std::string>{"o.npy"});
  EXPECT_EQ(read_all(folder / "o.npy"), "old");
  ASSERT_TRUE(write(folder / "o.npy", kOne, floats({1, 2})).ok());
  EXPECT_EQ(read_all(folder / "o.npy").substr(128), floats({1, 2}));
}

TEST(Writer, CountsTheBytes) {
  const Folder folder;
  {
    auto writer = TensorWriter::create(folder / "o.npy", kOne);
    ASSERT_TRUE(writer->append(span_of("1234567")).ok());
    expect_line_with(writer->append(span_of("89")), NIBBLE_INVALID_ARGUMENT, {"2 bytes", "o.npy", "at most 1"});
    EXPECT_FALSE(writer->append(span_of("8")).ok());  // a failure is final
    EXPECT_FALSE(writer->finish().ok());
  }
  {
    auto writer = TensorWriter::create(folder / "o.npy", kOne);
    ASSERT_TRUE(writer->append(span_of("1234567")).ok());
    expect_line_with(writer->finish(), NIBBLE_INVALID_ARGUMENT, {"7 of 8", "o.npy"});
  }
  EXPECT_TRUE(folder.names().empty());
  auto writer = TensorWriter::create(folder / "o.npy", kOne);
  ASSERT_TRUE(writer->append(span_of("12345678")).ok());
  ASSERT_TRUE(writer->finish().ok());
  expect_line_with(writer->finish(), NIBBLE_INVALID_ARGUMENT, {"finished already"});
  EXPECT_FALSE(writer->append({}).ok());
}

TEST(Writer, NewFilesHaveOrdinaryPermissions) {
  const Folder folder;
  const mode_t before = ::umask(027);
  ASSERT_TRUE(write(folder / "o.npy", kOne, floats({1, 2})).ok());
  ::umask(before);
  struct stat info {};
  ASSERT_EQ(::stat((folder / "o.npy").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777u, 0640u);
}

/// Runs `body` in a child, whose limits and user may be changed; true where it returned true.
bool in_child(const std::function<bool()>& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body() ? 0 : 1);
  int status = -1;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST(Writer, AFullPlaceLeavesNothing) {
  const Folder folder;
  folder.put("o.safetensors", "old");
  EXPECT_TRUE(in_child([&] {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{100000, 100000};
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return false;
    const std::string data(200000, 'd');
    const Status status = write(folder / "o.safetensors", {{"t", NIBBLE_F32, {50000}}}, data);
    return status.code() == NIBBLE_IO_ERROR &&
           status.message().find("o.safetensors': File too large") != std::string::npos;
  }));
  EXPECT_EQ(folder.names(), std::vector<std::string>{"o.safetensors"});
  EXPECT_EQ(read_all(folder / "o.safetensors"), "old");
}

TEST(Writer, APlaceWithoutPermissionLeavesNothing) {
  const Folder folder;
  folder.put("o.npy", "old");
  std::filesystem::create_directory(folder / "open");
  std::ofstream(folder / "open/o.npy") << "old";
  ASSERT_EQ(::chmod((folder / "").c_str(), 0755), 0);
  ASSERT_EQ(::chmod((folder / "open").c_str(), 0777), 0);
  ASSERT_EQ(::chmod((folder / "open/o.npy").c_str(), 0444), 0);
  EXPECT_TRUE(in_child([&] {
    constexpr uid_t kNobody = 65534;
    if (::geteuid() == 0) {
      if (::setuid(kNobody) != 0) return false;
    } else if (::chmod((folder / "").c_str(), 0555) != 0) {
      return false;
    }
    // A folder that takes no new file, and a file that may not be written in one that does.
    for (const char* name : {"new.npy", "open/o.npy"}) {
      const Status status = write(folder / name, kOne, floats({1, 2}));
      if (status.code() != NIBBLE_IO_ERROR) return false;
      if (status.message().find(std::string(name) + "': Permission denied") == std::string::npos) return false;
    }
    return true;
  }));
  ASSERT_EQ(::chmod((folder / "").c_str(), 0755), 0);
  EXPECT_EQ(folder.names().size(), 2u);
  EXPECT_EQ(read_all(folder / "open/o.npy"), "old");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder / "open"), {}), 1);
}

}  // namespace
}  // namespace nibble::test
