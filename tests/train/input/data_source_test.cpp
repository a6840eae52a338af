#include "lockstep/train/input/data_source.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "lockstep/base/error.h"
#include "lockstep/data/datasets/combined_datasets.h"
#include "tests/train/toys.h"

namespace lockstep::train {
namespace {

void write_image(const std::string& path, int value) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << "P6 8 8 255\n"
                                        << std::string(192, static_cast<char>(value));
}

void write_classes(const std::string& root, int images) {
  for (const char* name : {"cat", "dog"}) {
    for (int i = 0; i < images; ++i) {
      write_image(root + "/" + name + "/" + std::to_string(i) + ".ppm", i);
    }
  }
}

TEST(OpenData, TableIsSplitAndScaled) {
  const toys::Folder folder;
  std::ofstream file(folder.path + "/points.csv");
  file << "a,b,class\n";
  for (int i = 0; i < 50; ++i) {
    file << i << "," << 7 << "," << i % 2 << "\n";
  }
  file.close();
  const auto source = open_data({.data = folder.path + "/points.csv"});
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
  EXPECT_EQ(open_data({.data = folder.path + "/points.csv"}).index, source.index);
  EXPECT_EQ(open_data({.data = folder.path + "/points.csv", .label = "class", .val_split = 0.5})
                .train->size(),
            25);
}

// Else the first checkpoint would fail, at the end of an epoch.
TEST(OpenData, NamesThatNoCheckpointCanHoldAreRefused) {
  const toys::Folder folder;
  write_classes(folder.path + "/photos", 3);
  std::filesystem::rename(folder.path + "/photos/cat", folder.path + "/photos/k\xe4tzchen");
  EXPECT_THAT([&] { open_data({.data = folder.path + "/photos"}); },
              testing::ThrowsMessage<UsageError>(
                  testing::HasSubstr("the class 'k\xef\xbf\xbdtzchen' is not UTF-8")));
}

TEST(OpenData, OtherLabelsAreOtherData) {
  const toys::Folder folder;
  const auto index_with = [&](int last) {
    const auto path = folder.path + "/points.csv";
    std::ofstream(path) << "1,0\n2,1\n3,0\n4," << last << "\n";
    return open_data({.data = path}).index;
  };
  EXPECT_EQ(index_with(1), index_with(1));
  EXPECT_NE(index_with(1), index_with(0));
}

TEST(OpenData, FolderWithPartsForTrainingAndValidation) {
  for (const char* name : {"val", "valid", "validation", "test"}) {
    const toys::Folder folder;
    write_classes(folder.path + "/train", 3);
    write_classes(folder.path + "/" + name, 2);
    const auto source = open_data({.data = folder.path, .input_size = 16});
    EXPECT_EQ(source.train->size(), 6);
    EXPECT_EQ(source.validation->size(), 4);
    EXPECT_EQ(source.input, (std::vector<std::int64_t>{3, 16, 16}));
    EXPECT_THAT(source.class_names, testing::ElementsAre("cat", "dog"));
    EXPECT_EQ(source.validation->get(0).data.sizes(), at::IntArrayRef({3, 16, 16}));
  }
}

TEST(OpenData, OfThreePartsTheTestIsTheFinalEvaluation) {
  for (const char* name : {"val", "valid", "validation"}) {
    const toys::Folder folder;
    write_classes(folder.path + "/train", 3);
    write_classes(folder.path + "/" + name, 2);
    const auto before = open_data({.data = folder.path, .input_size = 16});
    EXPECT_FALSE(before.test);
    write_classes(folder.path + "/test", 5);
    const auto source = open_data({.data = folder.path, .input_size = 16});
    EXPECT_EQ(source.validation->size(), 4);
    ASSERT_TRUE(source.test);
    EXPECT_EQ(source.test->size(), 10);
    EXPECT_EQ(source.test->get(0).data.sizes(), at::IntArrayRef({3, 16, 16}));
    EXPECT_EQ(source.index, before.index) << "a run that was started without it goes on";
    EXPECT_NE(source.test_index, before.test_index);
    EXPECT_EQ(source.folders.size(), 3U);
  }
}

TEST(OpenData, WithTrainAndTestAloneTheTestValidates) {
  const toys::Folder folder;
  write_classes(folder.path + "/train", 3);
  write_classes(folder.path + "/test", 2);
  const auto source = open_data({.data = folder.path, .input_size = 16});
  EXPECT_EQ(source.validation->size(), 4);
  EXPECT_FALSE(source.test);
  EXPECT_THAT(source.warnings, testing::IsEmpty());
}

// As its archive is unpacked; its test part has no classes.
TEST(OpenData, TinyImagenet) {
  const toys::Folder folder;
  std::string annotations;
  for (int i = 0; i < 6; ++i) {
    const std::string number = std::to_string(i);
    const std::string name = i % 2 == 0 ? "n01" : "n02";
    write_image(folder.path + "/train/" + name + "/images/" + name + "_" + number + ".ppm", i);
    std::ofstream(folder.path + "/train/" + name + "/" + name + "_boxes.txt") << "boxes\n";
    write_image(folder.path + "/val/images/val_" + number + ".ppm", i);
    annotations += "val_" + number + ".ppm\t" + name + "\t0\t0\t7\t7\n";
    write_image(folder.path + "/test/images/test_" + number + ".ppm", i);
  }
  std::ofstream(folder.path + "/val/val_annotations.txt") << annotations;
  const auto source = open_data({.data = folder.path, .input_size = 8});
  EXPECT_THAT(source.class_names, testing::ElementsAre("n01", "n02"));
  EXPECT_EQ(source.train->size(), 6);
  ASSERT_EQ(source.validation->size(), 6);
  for (std::int64_t i = 0; i < 6; ++i) {
    const auto sample = source.validation->get(i);
    EXPECT_EQ(sample.target.item<std::int64_t>(), i / 3);  // val_0, 2, 4, 1, 3, 5.
  }
  EXPECT_FALSE(source.test);
  EXPECT_THAT(source.warnings, testing::ElementsAre(testing::HasSubstr("/test' is not scored")));
  // Another class of the same image is other data.
  annotations.replace(annotations.find("n01"), 3, "n02");
  std::ofstream(folder.path + "/val/val_annotations.txt") << annotations;
  EXPECT_NE(open_data({.data = folder.path, .input_size = 8}).index, source.index);
}

TEST(OpenData, HflipIsAProbabilityOfFolders) {
  const toys::Folder folder;
  std::string black_and_white = "P6 16 16 255\n";
  for (int row = 0; row < 16; ++row) {
    black_and_white += std::string(24, '\0') + std::string(24, '\xff');
  }
  for (const char* name : {"cat", "dog"}) {
    std::filesystem::create_directories(folder.path + "/" + name);
    for (int i = 0; i < 20; ++i) {
      std::ofstream(folder.path + "/" + name + "/" + std::to_string(i) + ".ppm", std::ios::binary)
          << black_and_white;
    }
  }
  const auto mirrored = [&](double hflip) {
    const auto source = open_data({.data = folder.path, .input_size = 2, .hflip = hflip});
    int count = 0;
    for (std::int64_t i = 0; i < source.train->size(); ++i) {
      const auto image = source.train->get(i).data;
      count += image[0][0][0].item<float>() > image[0][0][1].item<float>() ? 1 : 0;
    }
    return count;
  };
  EXPECT_EQ(mirrored(0), 0);
  EXPECT_GT(mirrored(-1), 0);  // One half.
  EXPECT_GT(mirrored(1), mirrored(-1));
}

// By their numbers in the folder that was split.
std::vector<std::int64_t> files_of(const std::shared_ptr<const data::Dataset>& part) {
  return dynamic_cast<const data::Subset&>(*part).indices();
}

TEST(OpenData, FolderWithoutPartsIsSplitByTheSeed) {
  const toys::Folder folder;
  write_classes(folder.path, 10);
  const auto parts_with = [&](std::uint64_t seed) {
    const auto source = open_data({.data = folder.path, .seed = seed});
    auto parts = std::pair(files_of(source.train), files_of(source.validation));
    std::ranges::sort(parts.first);
    std::ranges::sort(parts.second);
    return parts;
  };
  const auto parts = parts_with(1);
  EXPECT_EQ(parts.first.size(), 18U);
  EXPECT_EQ(parts.second.size(), 2U);
  auto all = parts.first;
  all.insert(all.end(), parts.second.begin(), parts.second.end());
  std::ranges::sort(all);
  EXPECT_EQ(std::ranges::adjacent_find(all), all.end());  // No file is in both.
  EXPECT_EQ(parts_with(1), parts);
  EXPECT_NE(parts_with(2).second, parts.second);
}

TEST(OpenData, NoBadFileIsReplacedByOneOfTheOtherPart) {
  const toys::Folder folder;
  write_classes(folder.path, 10);
  const TrainConfig config{.data = folder.path, .val_split = 0.5, .input_size = 8, .max_bad = 20};
  // A sample's only color tells its file; 0 to 9 are cats, the others dogs.
  const auto taken = [](const std::shared_ptr<const data::Dataset>& part, std::int64_t i) {
    const auto sample = part->get(i);
    const auto color =
        sample.data[0][0][0].item<double>() * data::kImageNetStd[0] + data::kImageNetMean[0];
    return std::llround(color * 255) + 10 * sample.target.item<std::int64_t>();
  };
  const auto before = open_data(config);
  for (const bool in_training : {true, false}) {
    const auto indices = files_of(in_training ? before.train : before.validation);
    const auto good = indices.back();
    for (const auto index : indices) {
      const std::string path =
          folder.path + (index < 10 ? "/cat/" : "/dog/") + std::to_string(index % 10) + ".ppm";
      ASSERT_EQ(taken(in_training ? before.train : before.validation,
                      std::ranges::find(indices, index) - indices.begin()),
                index);
      if (index != good) {
        std::ofstream(path) << "no image";
      }
    }
    const auto source = open_data(config);
    const auto& part = in_training ? source.train : source.validation;
    for (std::int64_t i = 0; i < part->size(); ++i) {
      const bool counts = in_training || indices[static_cast<std::size_t>(i)] == good;
      EXPECT_EQ(taken(part, i), counts ? good : good % 10 + 10 * data::kNotCounted);
    }
  }
}

TEST(OpenData, OfFewSamplesOneValidates) {
  const toys::Folder folder;
  write_classes(folder.path, 2);
  const auto source = open_data({.data = folder.path});
  EXPECT_EQ(source.train->size(), 3);
  EXPECT_EQ(source.validation->size(), 1);
  EXPECT_TRUE(source.is_split_by_seed);
  std::ofstream(folder.path + "/one.csv") << "a,b,class\n1,2,0\n";
  EXPECT_THAT([&] { open_data({.data = folder.path + "/one.csv"}); },
              testing::ThrowsMessage<UsageError>(testing::HasSubstr("has 1 samples")));
}

TEST(OpenData, WhatIsNoDataSaysWhatIsExpected) {
  const toys::Folder folder;
  const auto refused = [](const std::string& text) {
    return testing::ThrowsMessage<UsageError>(
        testing::AllOf(testing::HasSubstr(text), testing::HasSubstr("HINT: ")));
  };
  std::filesystem::create_directories(folder.path + "/none");
  EXPECT_THAT([&] { open_data({.data = folder.path + "/none"}); }, refused("has nothing in it"));
  write_image(folder.path + "/flat/0.ppm", 1);
  EXPECT_THAT([&] { open_data({.data = folder.path + "/flat"}); },
              refused("has 1 files and no folder in it"));
  write_image(folder.path + "/parts/train/0.ppm", 1);
  write_classes(folder.path + "/parts/val", 1);
  EXPECT_THAT([&] { open_data({.data = folder.path + "/parts"}); }, refused("no folder in it"));
  for (const auto& [content, text] : {std::pair("", "no row of numbers in 0 lines"),
                                      {"\n \n", "no row of numbers in 2 lines"},
                                      {"a,b,class\n", "no row of numbers in 1 lines"},
                                      {"1,2,0\n", "has 1 samples"},
                                      {"1,2,0\n1,3,1000000\n", "has the label 1000000"}}) {
    std::ofstream(folder.path + "/t.csv") << content;
    EXPECT_THAT([&] { open_data({.data = folder.path + "/t.csv"}); }, refused(text));
  }
}

TEST(OpenData, ClassesOfBothPartsMustBeTheSame) {
  const toys::Folder folder;
  write_classes(folder.path + "/train", 1);
  write_classes(folder.path + "/val", 1);
  write_image(folder.path + "/val/bird/0.ppm", 1);
  EXPECT_THAT([&] { open_data({.data = folder.path}); },
              testing::ThrowsMessage<IoError>(testing::HasSubstr("'bird'")));
}

TEST(OpenData, WhatIsNotThereIsAnErrorWithTheNearestName) {
  EXPECT_THAT([] { open_data({.data = "fashion-minst"}); },
              testing::ThrowsMessage<UsageError>(testing::HasSubstr("fashion-mnist")));
}

TEST(OpenData, FolderWithAPartForTrainingAloneIsSplitByTheSeed) {
  const toys::Folder folder;
  write_classes(folder.path + "/train", 10);
  write_image(folder.path + "/notes/0.ppm", 1);  // Beside it, and no class.
  const auto source = open_data({.data = folder.path, .input_size = 16});
  EXPECT_EQ(source.train->size(), 18);
  EXPECT_EQ(source.validation->size(), 2);
  EXPECT_TRUE(source.is_split_by_seed);
  EXPECT_THAT(source.class_names, testing::ElementsAre("cat", "dog"));
  EXPECT_THAT(source.description, testing::HasSubstr("/train'"));
  // As the part that was given by itself, but under the name of the whole.
  const auto part = open_data({.data = folder.path + "/train", .input_size = 16});
  EXPECT_EQ(source.index, part.index);
  EXPECT_NE(source.name, part.name);
  EXPECT_EQ(open_data({.data = folder.path, .val_split = 0.5}).train->size(), 10);
  EXPECT_EQ(open_data({.data = folder.path}).index, source.index);
}

TEST(OpenData, ADotIsPartOfAFoldersName) {
  const toys::Folder folder;
  for (const char* name : {"photos.v1", "photos.v2"}) {
    write_classes(folder.path + "/" + name, 2);
    EXPECT_EQ(open_data({.data = folder.path + "/" + name}).name, name);
    EXPECT_EQ(open_data({.data = folder.path + "/" + name + "/"}).name, name);
  }
  std::ofstream(folder.path + "/points.v1.csv") << "1,2,0\n2,1,1\n1,2,0\n";
  EXPECT_EQ(open_data({.data = folder.path + "/points.v1.csv"}).name, "points.v1");
}

TEST(OpenData, WithoutANameItIsFashionMnistWhereDebianHasIt) {
  const bool is_installed =
      std::filesystem::exists("/usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz");
  EXPECT_EQ(open_data({}).name, is_installed ? "fashion-mnist" : "generated");
}

TEST(OpenData, GeneratedImagesNeedNoFiles) {
  const auto source = open_data({.data = "generated"});
  EXPECT_EQ(source.name, "generated");
  EXPECT_EQ(source.input, (std::vector<std::int64_t>{1, 28, 28}));
}

}  // namespace
}  // namespace lockstep::train
