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
      parse_csv("\xef\xbb\xbfglucose, \"body mass\" ,3\r\n1, 2 ,\"3\"\r\n\r\n", "x");
  EXPECT_THAT(table.names, ElementsAre("glucose", "body mass", "3"));
  EXPECT_EQ(table.rows, 1);
  EXPECT_THAT(table.values, ElementsAre(1, 2, 3));
}

TEST(ParseCsv, TakesAnotherSeparator) {
  EXPECT_THAT(parse_csv("1;2\n3;4\n", "x", {.separator = ';'}).values, ElementsAre(1, 2, 3, 4));
}

TEST(ParseCsv, WhatIsWrongIsNamedByLineAndColumn) {
  const auto refuses = [](const std::string& text, const std::string& part) {
    EXPECT_THAT([&] { parse_csv(text, "file"); }, ThrowsMessage<IoError>(HasSubstr(part))) << text;
  };
  refuses("1,2\n3\n", "csv 'file': line 2: 1 fields, expected 2");
  refuses("a,b\n\n1,2\n1,2,3\n", "line 4: 3 fields, expected 2");
  refuses("1,2\n3,x\n", "line 2: column 2 is 'x', expected a finite number");
  refuses("1,2\n,4\n", "line 2: column 1 is '', expected a finite number");
  refuses("1,2\n3,nan\n", "column 2 is 'nan'");
  refuses("1,2\n3,1e999\n", "column 2 is '1e999'");
  refuses("1,2\n3,4 5\n", "column 2 is '4 5'");
  refuses("", "there is no row of numbers in 0 lines");
  refuses("a,b\n", "there is no row of numbers in 1 lines");
  refuses("1\n" + std::string(100, 'z'), "'" + std::string(40, 'z') + "...'");
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
