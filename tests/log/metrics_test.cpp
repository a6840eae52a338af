#include "lockstep/log/metrics.h"

#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "lockstep/base/error.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::log {
namespace {

using std::int64_t;
using ::testing::ElementsAre;
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

TEST_F(MetricsFiles, AHeaderThatASpreadsheetWroteIsTheSame) {
  std::ofstream(path())
      << "\xEF\xBB\xBF\"epoch\",\"train,\"\"loss\"\"\"\r\n\"0\",\"1\"\r\n\"1\",2\r\n";
  EXPECT_NO_THROW(require_columns(path(), {"epoch", "train,\"loss\""}));
  SummaryCsv csv(path());
  csv.drop_after(0);
  csv.write({{"epoch", int64_t{1}}, {"train,\"loss\"", 0.25}});
  EXPECT_THAT(read_file(path()), ::testing::EndsWith("\r\n\"0\",\"1\"\r\n1,0.25\n"));
}

TEST_F(MetricsFiles, AHeaderThatWasWrittenByHalfIsNoOtherOne) {
  for (const char* half : {"", "epoch,lo"}) {
    std::ofstream(path()) << half;
    EXPECT_NO_THROW(require_columns(path(), {"epoch", "loss"}));
    SummaryCsv(path()).write({{"epoch", int64_t{1}}, {"loss", 0.5}});
    EXPECT_EQ(read_file(path()), "epoch,loss\n1,0.5\n");
    std::filesystem::remove(path());
  }
}

TEST_F(MetricsFiles, OtherColumnsAreFoundBeforeARowIsWritten) {
  EXPECT_NO_THROW(require_columns(path(), {"epoch"}));
  EXPECT_FALSE(std::filesystem::exists(path()));
  std::ofstream(path()) << "epoch,lo\rss\n0,1\n";
  EXPECT_THAT(
      [&] { require_columns(path(), {"epoch", "loss"}); },
      ThrowsMessage<UsageError>(::testing::AllOf(
          HasSubstr("'" + path() + "' has the columns 'epoch,lo?ss', expected 'epoch,loss'"),
          HasSubstr("HINT: move it away"))));
  EXPECT_EQ(read_file(path()), "epoch,lo\rss\n0,1\n");
}

TEST_F(MetricsFiles, AResumedRunHoldsEachStepOnce) {
  {
    MetricsFile metrics(path());
    for (int64_t step = 1; step <= 6; ++step) {
      metrics.write({{"epoch", int64_t{9}}, {"step", step}, {"note", std::string("\"step\": 99")}});
    }
    metrics.write({{"epoch", int64_t{9}}, {"eval_top1", 90.5}});
  }
  MetricsFile resumed(path());
  resumed.drop_after("step", 4);
  resumed.write({{"epoch", int64_t{9}}, {"step", int64_t{5}}});
  std::vector<int64_t> steps;
  for (std::istringstream lines(read_file(path())); !lines.eof();) {
    std::string line;
    if (std::getline(lines, line)) {
      steps.push_back(nlohmann::json::parse(line).at("step"));
    }
  }
  EXPECT_THAT(steps, ElementsAre(1, 2, 3, 4, 5));
}

TEST_F(MetricsFiles, LinesWithoutTheNumberStayIfTheyCameBefore) {
  MetricsFile metrics(path());
  metrics.write({{"started", std::string("now")}});
  metrics.write({{"step", int64_t{1}}});
  metrics.drop_after("step", 0);
  EXPECT_EQ(read_file(path()), "{\"started\": \"now\"}\n");
  metrics.drop_after("step", 0);
  metrics.drop_after("other", 0);
  EXPECT_EQ(read_file(path()), "{\"started\": \"now\"}\n");
}

TEST_F(MetricsFiles, ASummaryOfAResumedRunHoldsEachEpochOnce) {
  const auto row = [](int64_t epoch) { return Metrics{{"epoch", epoch}, {"loss", 0.5}}; };
  {
    SummaryCsv csv(path());
    for (int64_t epoch = 0; epoch < 12; ++epoch) {
      csv.write(row(epoch));
    }
  }
  SummaryCsv csv(path());
  csv.drop_after(1);
  csv.write(row(2));
  EXPECT_EQ(read_file(path()), "epoch,loss\n0,0.5\n1,0.5\n2,0.5\n");
  csv.drop_after(-1);
  EXPECT_EQ(read_file(path()), "epoch,loss\n");
  csv.write(row(0));
  EXPECT_EQ(read_file(path()), "epoch,loss\n0,0.5\n");
}

}  // namespace
}  // namespace lockstep::log
