// What messages do to names that are not the library's own: one line, no control characters, no endless length.
// Apart from the parsers' tests because variables and plugins are worded by the same functions.
#include "core/text.h"

#include <gtest/gtest.h>

#include <vector>

namespace nibble {
namespace {

TEST(Text, QuotesOnOneLine) {
  EXPECT_EQ(quote("blk.0"), "'blk.0'");
  EXPECT_EQ(quote("a\nb\x1b[0m\x7f"), "'a\\x0ab\\x1b[0m\\x7f'");
  EXPECT_EQ(quote("\xc3\xa9"), "'\xc3\xa9'");
  EXPECT_EQ(quote("\xc3"), "'\\xc3'");
  EXPECT_EQ(printable(std::string_view("a\0b", 3)), "a\\x00b");
}

TEST(Text, ControlsBeyondAsciiAreNoLetters) {
  // U+0085 and U+009B are controls, U+00A0 is not; U+200E, U+2028, U+202E and U+2066 turn or break a line.
  EXPECT_EQ(printable("\xc2\x85"), "\\xc2\\x85");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            "\\xc2\\x9b31m");
  EXPECT_EQ(printable("\xc2\xa0"), "\xc2\xa0");
  for (const char* turns : {"\xe2\x80\x8e", "\xe2\x80\xa8", "\xe2\x80\xae", "\xe2\x81\xa6", "\xe2\x81\xa9"}) {
    EXPECT_EQ(printable(turns).find(turns), std::string::npos) << printable(turns);
  }
  for (const char* letter : {"\xe2\x80\x8d", "\xe2\x80\x90", "\xe2\x80\xaf", "\xe2\x81\xa5", "\xe2\x82\xac"}) {
    EXPECT_EQ(printable(letter), letter);
  }
}

TEST(Text, CutsBetweenCharacters) {
  EXPECT_EQ(quote(std::string(200, 'a')), "'" + std::string(200, 'a') + "'");
  EXPECT_EQ(quote(std::string(201, 'a')), "'" + std::string(200, 'a') + "...'");
  std::string accents = "x";  // 200 bytes would end within one
  for (int i = 0; i < 150; ++i) accents += "\xc3\xa9";
  EXPECT_EQ(quote(accents), "'" + accents.substr(0, 199) + "...'");
  EXPECT_EQ(printable("\xe2\x82\xac\xe2\x82\xac", 5), "\xe2\x82\xac...");
  EXPECT_EQ(printable("abcdef", 4), "abcd...");
}

TEST(Text, ListsAHundredAndCountsTheRest) {
  EXPECT_EQ(listed({}), "");
  const std::string_view three[] = {"a", "b\n", "c"};
  EXPECT_EQ(listed(three), "a, b\\x0a, c");
  EXPECT_EQ(listed(std::vector<std::string_view>(100, "a")).size(), 298u);
  const std::string more = listed(std::vector<std::string_view>(107, "a"));
  EXPECT_EQ(more.substr(more.size() - 14), ", a and 7 more");
}

TEST(Text, KnowsUtf8) {
  for (const char* good : {"", "abc", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\xf4\x8f\xbf\xbf"}) {
    EXPECT_TRUE(is_utf8(good)) << quote(good);
  }
  // A lone continuation, cut sequences, long forms of '/' and U+0800, a surrogate, beyond U+10FFFF, never-used bytes.
  for (const char* bad : {"\x80", "\xc3", "\xe2\x82", "\xc0\xaf", "\xe0\x80\xaf", "\xf0\x80\xa0\x80", "\xed\xa0\x80",
                          "\xf4\x90\x80\x80", "\xff", "a\xfe"}) {
    EXPECT_FALSE(is_utf8(bad)) << quote(bad);
  }
}

}  // namespace
}  // namespace nibble
