#include "lockstep/data/readers/csv.h"

#include <gmock/gmock.h>

#include "lockstep/base/error.h"
#include "tests/data/files.h"

namespace lockstep::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

TEST(ParseCsv, ReadsRowsOfNumbers) {
  const CsvTable table = parse_csv("6,148,33.6,1\n-1,.5,+2e3,0", "x");
  EXPECT_EQ(table.rows, 2);
  EXPECT_EQ(table.columns, 4);
  EXPECT_THAT(table.names, IsEmpty());
  EXPECT_THAT(table.values, ElementsAre(6, 148, 33.6, 1, -1, .5, 2000, 0));
}

TEST(ParseCsv, FindsAHeaderByItself) {
  const CsvTable table =
      parse_csv("\xef\xbb\xbfglucose, \"body mass\" ,x3\r\n1, 2 ,\"3\"\r\n\r\n", "x");
  EXPECT_THAT(table.names, ElementsAre("glucose", "body mass", "x3"));
  EXPECT_EQ(table.rows, 1);
  EXPECT_THAT(table.values, ElementsAre(1, 2, 3));
}

TEST(ParseCsv, TakesAnotherSeparator) {
  EXPECT_THAT(parse_csv("1;2\n3;4\n", "x", {.separator = ';'}).values, ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(parse_csv("a\t\t\"c\"\n1\t2\t3\n", "x", {.separator = '\t'}).names,
              ElementsAre("a", "", "c"));
}

TEST(ParseCsv, WhatIsWrongIsNamedByLineAndColumn) {
  const auto refuses = [](const std::string& text, const std::string& part) {
    EXPECT_THAT([&] { parse_csv(text, "file"); }, ThrowsMessage<IoError>(HasSubstr(part))) << text;
  };
  refuses("1,2\n3\n", "csv 'file': line 2: 1 fields, expected 2");
  refuses("a,b\n\n1,2\n1,2,3\n", "line 4: 3 fields, expected 2");
  refuses("1,2\n3,x\n", "line 2: column 2 is 'x', which is no number, expected a finite number");
  refuses("1,2\n,4\n", "line 2: column 1 is '', which is no number, expected a finite number");
  refuses("1,2\n3,nan\n", "column 2 is 'nan'");
  refuses("1,2\n3,1e999\n", "column 2 is '1e999'");
  refuses("1,2\n3,4 5\n", "column 2 is '4 5'");
  refuses("1\n" + std::string(100, 'z'), "'" + std::string(40, 'z') + "...'");
}

void expect_refused(const std::string& text, const std::string& part) {
  EXPECT_THAT([&] { parse_csv(text, "file"); }, ThrowsMessage<IoError>(HasSubstr(part))) << text;
}

TEST(ParseCsv, WithoutARowSaysWhatIsExpected) {
  for (const auto& [text, lines] : {std::pair("", "0"), {"\n \n", "2"}, {"a,b\n", "1"}}) {
    EXPECT_THAT(
        [&] { parse_csv(text, "file"); },
        ThrowsMessage<NoRows>("csv 'file': there is no row of numbers in " + std::string(lines) +
                              " lines, expected a header, if any, and rows; HINT: give "
                              "rows such as 0.5,1.25,0"));
  }
}

TEST(ParseCsv, ABrokenFirstRowIsNoHeader) {
  const std::string rest = "\n1,2,3,0\n4,5,6,1\n";
  expect_refused("1,,3,0" + rest,
                 "line 1: column 2 is '', which is no number, expected a finite number; a header "
                 "must have no numbers");
  expect_refused("1,x2,3,0" + rest, "line 1: column 2 is 'x2', which is no number");
  expect_refused("a,b,c,7" + rest, "line 1: column 1 is 'a'");
  expect_refused(",,," + rest, "line 1: column 1 is ''");
  expect_refused("nan,nan,nan,nan" + rest, "line 1: column 1 is 'nan'");
  EXPECT_THAT(parse_csv("a,,c,d" + rest, "x").names, ElementsAre("a", "", "c", "d"));
}

TEST(ParseCsv, WhatFloat32CannotHoldIsRefused) {
  expect_refused("1,2\n3,1e39\n", "line 2: column 2 is '1e39', which is too large for float32");
  expect_refused("-1e39,2\n", "line 1: column 1 is '-1e39', which is too large for float32");
  expect_refused("1,2\n3,1e999\n", "column 2 is '1e999', which is too large for float32");
  EXPECT_THAT(parse_csv("3.4e38,-3.4e38\n", "x").values, ElementsAre(3.4e38, -3.4e38));
}

TEST(ParseCsv, QuotesMayHoldSeparatorsAndDoubledQuotes) {
  const CsvTable table = parse_csv("\"height, \"\"m\"\"\", 5\" ,\"\"\n\"1\", 2 ,\"3\" \r\n", "x");
  EXPECT_THAT(table.names, ElementsAre("height, \"m\"", "5\"", ""));
  EXPECT_THAT(table.values, ElementsAre(1, 2, 3));
  expect_refused("1,2\n\"1,000\",3\n", "line 2: column 1 is '1,000', which is no number");
  expect_refused("1,2\n\"1,3\n", "line 2: column 1 begins with a quote that is not closed");
  expect_refused("1,2\n\"1\"2,3\n", "line 2: column 1 goes on behind its closing quote with '2'");
}

TEST(ParseCsv, AnotherSeparatorGetsAHint) {
  const std::string hint = "; HINT: the separator must be a comma";
  expect_refused("a;b\n1;2\n",
                 "line 2: column 1 is '1;2', which is no number, expected a finite "
                 "number" +
                     hint);
  expect_refused("a;b\n1,5;2,5\n", "line 2: 3 fields, expected 1 as in the lines before" + hint);
  expect_refused("1;2\n",
                 "there is no row of numbers in 1 lines, expected a header, if any, and "
                 "rows" +
                     hint);
  expect_refused("1\t2\n3\t4\n", hint);
  expect_refused("\"a\";\"b\"\n1;2\n", hint);
}

TEST(ParseCsv, ShowsNothingThatATerminalObeys) {
  expect_refused("1,2\n3,\x1b[2J\xff\n", "column 2 is '?[2J\xef\xbf\xbd'");
  EXPECT_THAT([] { parse_csv("", "a\x1b]0;b"); }, ThrowsMessage<IoError>(HasSubstr("'a?]0;b'")));
}

TEST(LoadCsv, ReadsPlainAndPackedFilesOfAnySize) {
  std::string text = "x,y\n";
  for (int i = 0; i < 200'000; ++i) {
    text += std::to_string(i) + ",1\n";
  }
  for (const auto& content : {text, gzip(text)}) {
    const CsvTable table = load_csv(MemoryFile(content).path());
    EXPECT_EQ(table.rows, 200'000);
    EXPECT_EQ(table.values.at(2 * 123'456), 123'456);
  }
  EXPECT_THAT([] { load_csv("/there/is/none.csv"); },
              ThrowsMessage<IoError>(HasSubstr("/there/is/none.csv")));
}

}  // namespace
}  // namespace lockstep::data
