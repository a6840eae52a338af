#include "lockstep/base/environment.h"

#include <gmock/gmock.h>

#include <cstdlib>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Optional;
using ::testing::ThrowsMessage;

TEST(Environment, ReadsThisProcess) {
  ::setenv("LOCKSTEP_TEST_VARIABLE", "a=b", 1);
  const Environment environment = Environment::of_this_process();
  ::unsetenv("LOCKSTEP_TEST_VARIABLE");
  EXPECT_THAT(environment.get("LOCKSTEP_TEST_VARIABLE"), Optional(std::string("a=b")));
}

TEST(Environment, AnEmptyVariableIsNotSet) {
  const Environment environment({{"RANK", ""}});
  EXPECT_FALSE(environment.has("RANK"));
  EXPECT_EQ(environment.get_int("RANK"), std::nullopt);
}

TEST(Environment, SetReplaces) {
  Environment environment({{"RANK", "1"}});
  environment.set("RANK", "2");
  EXPECT_EQ(environment.require_int("RANK"), 2);
  EXPECT_EQ(environment.variables().size(), 1U);
}

TEST(Environment, ABadIntegerNamesVariableAndValue) {
  const Environment environment({{"RANK", "one"}});
  EXPECT_THAT([&] { return environment.get_int("RANK"); },
              ThrowsMessage<UsageError>(AllOf(HasSubstr("RANK"), HasSubstr("'one'"))));
}

TEST(Environment, AMissingIntegerNamesVariableAndRemedy) {
  EXPECT_THAT([] { return Environment().require_int("WORLD_SIZE"); },
              ThrowsMessage<UsageError>(
                  AllOf(HasSubstr("WORLD_SIZE is not set"), HasSubstr("lockstep run"))));
}

}  // namespace
}  // namespace lockstep
