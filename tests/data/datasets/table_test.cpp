#include "lockstep/data/datasets/table.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>

#include "lockstep/base/error.h"
#include "tests/data/files.h"

namespace lockstep::data {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TensorDataset table_of(const std::string& text, const TableOptions& options = {}) {
  return table_dataset(MemoryFile(text).path(), options);
}

// As the table of Pima: eight features and an outcome of 0 or 1.
TEST(TableDataset, TheLastColumnIsTheClass) {
  std::string text;
  for (int row = 0; row < 768; ++row) {
    text += std::to_string(row) + ",148,72,35,0,33.6,0.627,50," + std::to_string(row % 2) + "\n";
  }
  const TensorDataset table = table_of(text);
  EXPECT_EQ(table.size(), 768);
  EXPECT_EQ(table.data().scalar_type(), at::kFloat);
  EXPECT_TRUE(at::equal(table.get(767).data,
                        at::tensor({767., 148., 72., 35., 0., 33.6, 0.627, 50.}, at::kFloat)));
  EXPECT_EQ(table.get(767).target.item<std::int64_t>(), 1);
}

TEST(TableDataset, TheClassCanBeAnyColumn) {
  const std::string text = "kind,a,b\n3,1,2\n0,4,5\n";
  for (const TableOptions& options :
       {TableOptions{.label_column = 0}, TableOptions{.label_column = -3},
        TableOptions{.label_name = "kind"}}) {
    const TensorDataset table = table_of(text, options);
    EXPECT_TRUE(at::equal(table.target(), at::tensor({3, 0}, at::kLong)));
    EXPECT_TRUE(at::equal(table.get(1).data, at::tensor({4., 5.}, at::kFloat)));
  }
}

TEST(TableDataset, WhatIsWrongIsNamed) {
  EXPECT_THAT([] { table_of("1,2\n1,0.5\n"); },
              ThrowsMessage<IoError>(HasSubstr("the label of row 2 is 0.5")));
  EXPECT_THAT([] { table_of("1,-2\n"); },
              ThrowsMessage<IoError>(HasSubstr("the label of row 1 is -2")));
  EXPECT_THAT([] { table_of("1,2\n", {.label_column = 2}); },
              ThrowsMessage<UsageError>(HasSubstr("label_column is 2, expected one of 2 columns")));
  EXPECT_THAT([] { table_of("a,b\n1,2\n", {.label_name = "c"}); },
              ThrowsMessage<UsageError>(HasSubstr("no column 'c'; the header has: a, b")));
}

TEST(TableDataset, ALabelThatIsTooLargeNamesTheLimit) {
  EXPECT_THAT([] { table_of("1,4000000000\n"); },
              ThrowsMessage<IoError>(HasSubstr("expected a whole number from 0 to 1000000000")));
  EXPECT_EQ(table_of("1,1000000000\n").get(0).target.item<std::int64_t>(), 1'000'000'000);
}

TEST(TableDataset, NeedsAColumnBesideTheLabels) {
  EXPECT_THAT([] { table_of("0\n1\n"); },
              ThrowsMessage<IoError>(HasSubstr("there is one column, that of the labels")));
}

TEST(LoadTable, TellsTheNamesOfAHeader) {
  EXPECT_EQ(load_table(MemoryFile("a,b\n1,2\n").path()).names,
            (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(load_table(MemoryFile("1,2\n").path()).names.empty());
}

}  // namespace
}  // namespace lockstep::data
