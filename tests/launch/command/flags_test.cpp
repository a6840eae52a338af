#include "lockstep/launch/command/flags.h"

#include <gmock/gmock.h>

#include "lockstep/base/error.h"

namespace lockstep::launch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

FlagValues scan(const std::vector<std::string>& arguments,
                std::map<std::string, std::string, std::less<>> variables = {}) {
  return scan_flags(arguments, Environment(std::move(variables)));
}

TEST(ScanFlags, BothSpellingsAndBothWaysToGiveAValue) {
  for (const char* spelling : {"--nproc-per-node", "--nproc_per_node", "--gpus"}) {
    EXPECT_EQ(scan({spelling, "2", "x"}).get("nproc-per-node"), "2");
    EXPECT_EQ(scan({std::string(spelling) + "=2", "x"}).get("nproc-per-node"), "2");
  }
  EXPECT_EQ(scan({"-r", "3", "x"}).get("redirects"), "3");
  EXPECT_EQ(scan({"-r3", "x"}).get("redirects"), "3");
  EXPECT_EQ(scan({"-t=1", "x"}).get("tee"), "1");
  EXPECT_TRUE(scan({"-m", "x"}).has("module"));
}

TEST(ScanFlags, EverythingFromTheProgramOnIsUntouched) {
  const auto flags = scan({"--standalone", "prog", "--nnodes", "--", "-x"});
  EXPECT_THAT(flags.command, ElementsAre("prog", "--nnodes", "--", "-x"));
  EXPECT_FALSE(flags.has("nnodes"));
  EXPECT_THAT(scan({"--", "--prog"}).command, ElementsAre("--prog"));
}

TEST(ScanFlags, PetVariablesAreDefaults) {
  EXPECT_EQ(scan({"x"}, {{"PET_NNODES", "3"}}).get("nnodes"), "3");
  EXPECT_EQ(scan({"--nnodes=2", "x"}, {{"PET_NNODES", "3"}}).get("nnodes"), "2");
  EXPECT_TRUE(scan({"x"}, {{"PET_NO_PYTHON", "1"}}).has("no-python"));
  EXPECT_FALSE(scan({"x"}, {{"PET_NO_PYTHON", "0"}}).has("no-python"));
  EXPECT_THAT([] { scan({"x"}, {{"PET_STANDALONE", "yes"}}); },
              ThrowsMessage<UsageError>(HasSubstr("PET_STANDALONE is 'yes'")));
}

TEST(ScanFlags, FlagsOfTorchrunThatWeLackSayNotYetByName) {
  for (const char* flag :
       {"--rdzv-conf", "--start_method", "--event-log-handler", "--run-path",
        "--duplicate-stdout-filters", "--duplicate_stderr_filters", "--logs-specs",
        "--numa-binding", "--virtual-local-rank", "--print-completion"}) {
    EXPECT_THAT([&] { scan({flag, "v", "x"}); },
                ThrowsMessage<UsageError>(AllOf(HasSubstr(flag), HasSubstr("not yet"))));
  }
  EXPECT_THAT([] { scan({"x"}, {{"PET_RDZV_CONF", "a=b"}}); },
              ThrowsMessage<UsageError>(HasSubstr("PET_RDZV_CONF")));
}

TEST(ScanFlags, UnknownFlagsGetASuggestion) {
  EXPECT_THAT([] { scan({"--max-restart", "3", "x"}); },
              ThrowsMessage<UsageError>(HasSubstr("did you mean --max-restarts?")));
  EXPECT_THAT([] { scan({"--nproc", "3", "x"}); },
              ThrowsMessage<UsageError>(HasSubstr("did you mean --nproc-per-node?")));
  EXPECT_THAT([] { scan({"-z"}); }, ThrowsMessage<UsageError>(HasSubstr("unknown flag -z")));
}

TEST(ScanFlags, MissingAndSuperfluousValues) {
  EXPECT_THAT([] { scan({"--tee"}); }, ThrowsMessage<UsageError>(HasSubstr("--tee needs a value")));
  EXPECT_THAT([] { scan({"--standalone=1", "x"}); },
              ThrowsMessage<UsageError>(HasSubstr("takes no value")));
}

TEST(DescribeFlags, ListsWhatIsSupportedAndNothingElse) {
  EXPECT_THAT(describe_flags(), HasSubstr("-r, --redirects"));
  EXPECT_THAT(describe_flags(), Not(HasSubstr("--rdzv-conf")));
}

}  // namespace
}  // namespace lockstep::launch
