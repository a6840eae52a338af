#include "lockstep/log/metrics.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "tests/support/child.h"

namespace lockstep::log {
namespace {

using std::int64_t;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(Metrics, ALineIsJsonWithTheSameNumbers) {
  const auto line = json_line({{"epoch", int64_t{3}},
                               {"loss", 0.1},
                               {"tiny", 5e-324},
                               {"na\"me\\\n", std::string("\x01 \xc3\xa9 \xff")}});
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  const auto read = nlohmann::json::parse(line);
  EXPECT_EQ(read.at("epoch"), 3);
  EXPECT_EQ(read.at("loss").get<double>(), 0.1);
  EXPECT_EQ(read.at("tiny").get<double>(), 5e-324);
  EXPECT_EQ(read.at("na\"me\\\n"), "\x01 \xc3\xa9 \xef\xbf\xbd");
}

TEST(Metrics, WhatJsonHasNoNumberForIsAString) {
  EXPECT_EQ(json_line({{"a", std::nan("")}, {"b", kInfinity}, {"c", -kInfinity}}),
            "{\"a\": \"NaN\", \"b\": \"Infinity\", \"c\": \"-Infinity\"}\n");
}

class MetricsFiles : public ::testing::Test {
 protected:
  [[nodiscard]] std::string path() const { return folder_.file("file"); }

 private:
  test::TemporaryFolder folder_;
};

TEST_F(MetricsFiles, ARunThatGoesOnAddsLines) {
  MetricsFile(path()).write({{"epoch", int64_t{0}}});
  MetricsFile(path()).write({{"epoch", int64_t{1}}});
  EXPECT_EQ(read_file(path()), "{\"epoch\": 0}\n{\"epoch\": 1}\n");
}

TEST_F(MetricsFiles, ASummaryHasOneHeader) {
  {
    SummaryCsv csv(path());
    csv.write({{"epoch", int64_t{0}}, {"train,loss", 0.25}});
    csv.write({{"epoch", int64_t{1}}, {"train,loss", std::nan("")}});
  }
  SummaryCsv(path()).write({{"epoch", int64_t{2}}, {"train,loss", std::string("a \"b\"")}});
  EXPECT_EQ(read_file(path()), "epoch,\"train,loss\"\n0,0.25\n1,NaN\n2,\"a \"\"b\"\"\"\n");
}

TEST_F(MetricsFiles, AnEmptyValueKeepsItsColumn) {
  SummaryCsv csv(path());
  csv.write({{"note", std::string()}, {"epoch", int64_t{0}}, {"loss", 0.5}});
  csv.write({{"note", std::string("best")}, {"epoch", int64_t{1}}, {"loss", 0.25}});
  EXPECT_EQ(read_file(path()), "note,epoch,loss\n,0,0.5\nbest,1,0.25\n");
}

TEST_F(MetricsFiles, ARowOfOtherColumnsIsRefused) {
  SummaryCsv(path()).write({{"epoch", int64_t{0}}});
  SummaryCsv csv(path());
  EXPECT_THAT([&] { csv.write({{"step", int64_t{0}}}); },
              ThrowsMessage<UsageError>(
                  HasSubstr("a row with the columns 'step', expected those of the file, 'epoch'")));
  EXPECT_EQ(read_file(path()), "epoch\n0\n");
}

}  // namespace
}  // namespace lockstep::log
