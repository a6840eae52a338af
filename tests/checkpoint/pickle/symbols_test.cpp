#include "lockstep/checkpoint/pickle/symbols.h"

#include <gtest/gtest.h>

namespace lockstep::checkpoint {
namespace {

TEST(FindSymbol, KnowsTypesAndStorages) {
  EXPECT_EQ(find_symbol("torch", "FloatStorage")->dtype, DType::kFloat32);
  EXPECT_EQ(find_symbol("torch", "bfloat16")->symbol, Symbol::kDType);
  EXPECT_EQ(find_symbol("torch.storage", "UntypedStorage")->dtype, std::nullopt);
}

TEST(FindSymbol, KnowsNothingElse) {
  EXPECT_FALSE(find_symbol("os", "system"));
  EXPECT_FALSE(find_symbol("builtins", "eval"));
  EXPECT_FALSE(find_symbol("torch", ""));  // Types without a storage class have an empty name.
  EXPECT_FALSE(find_symbol("torch", "load"));
  EXPECT_FALSE(find_symbol("torch.hub", "load"));
  EXPECT_FALSE(find_symbol("collections", "OrderedDict.fromkeys"));
}

}  // namespace
}  // namespace lockstep::checkpoint
