#include "lockstep/train/input/table_source.h"

#include <gmock/gmock.h>

#include <fstream>

#include "lockstep/base/error.h"
#include "lockstep/data/datasets/tensor_dataset.h"
#include "tests/train/toys.h"

namespace lockstep::train {
namespace {

TEST(OpenTable, IsSplitAndScaled) {
  const toys::Folder folder;
  std::ofstream file(folder.path + "/points.csv");
  file << "a,b,class\n";
  for (int i = 0; i < 50; ++i) {
    file << i << "," << 7 << "," << i % 2 << "\n";
  }
  file.close();
  const auto source = open_table({.data = folder.path + "/points.csv"});
  EXPECT_EQ(source.name, "points");
  EXPECT_EQ(source.train->size(), 45);
  EXPECT_EQ(source.validation->size(), 5);
  EXPECT_EQ(source.input, std::vector<std::int64_t>{2});
  EXPECT_EQ(source.num_classes, 2);
  EXPECT_EQ(source.note, ", the first line is its header");
  const auto* train = dynamic_cast<const data::TensorDataset*>(source.train.get());
  EXPECT_NEAR(train->data().select(1, 0).mean().item<float>(), 0, 1e-5);
  EXPECT_NEAR(train->data().select(1, 0).std(false).item<float>(), 1, 1e-5);
  EXPECT_EQ(train->data().select(1, 1).abs().max().item<float>(), 0);  // A constant column.
  EXPECT_EQ(open_table({.data = folder.path + "/points.csv"}).index, source.index);
  EXPECT_EQ(open_table({.data = folder.path + "/points.csv", .label = "class", .val_split = 0.5})
                .train->size(),
            25);
}

TEST(OpenTable, OneClassIsRefused) {
  const toys::Folder folder;
  std::ofstream(folder.path + "/points.csv") << "1,0\n2,0\n3,0\n";
  EXPECT_THAT([&] { open_table({.data = folder.path + "/points.csv"}); },
              ::testing::ThrowsMessage<UsageError>(::testing::HasSubstr("the label 0 alone")));
}

TEST(OpenTable, OtherLabelsAreOtherData) {
  const toys::Folder folder;
  const auto index_with = [&](int last) {
    const auto path = folder.path + "/points.csv";
    std::ofstream(path) << "1,0\n2,1\n3,0\n4," << last << "\n";
    return open_table({.data = path}).index;
  };
  EXPECT_EQ(index_with(1), index_with(1));
  EXPECT_NE(index_with(1), index_with(0));
}

}  // namespace
}  // namespace lockstep::train
