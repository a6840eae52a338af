#include "lockstep/train/input/folder_source.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "lockstep/base/error.h"
#include "lockstep/data/datasets/combined_datasets.h"
#include "tests/train/input/image_files.h"
#include "tests/train/toys.h"

namespace lockstep::train {
namespace {

using toys::write_classes;
using toys::write_image;

TEST(OpenImageFolder, WithPartsForTrainingAndValidation) {
  for (const char* name : {"val", "valid", "validation", "test"}) {
    const toys::Folder folder;
    write_classes(folder.path + "/train", 3);
    write_classes(folder.path + "/" + name, 2);
    const auto source = open_image_folder({.data = folder.path, .input_size = 16});
    EXPECT_EQ(source.train->size(), 6);
    EXPECT_EQ(source.validation->size(), 4);
    EXPECT_EQ(source.input, (std::vector<std::int64_t>{3, 16, 16}));
    EXPECT_THAT(source.class_names, ::testing::ElementsAre("cat", "dog"));
    EXPECT_EQ(source.validation->get(0).data.sizes(), at::IntArrayRef({3, 16, 16}));
  }
}

TEST(OpenImageFolder, OfThreePartsTheTestIsTheFinalEvaluation) {
  for (const char* name : {"val", "valid", "validation"}) {
    const toys::Folder folder;
    write_classes(folder.path + "/train", 3);
    write_classes(folder.path + "/" + name, 2);
    const auto before = open_image_folder({.data = folder.path, .input_size = 16});
    EXPECT_FALSE(before.test);
    write_classes(folder.path + "/test", 5);
    const auto source = open_image_folder({.data = folder.path, .input_size = 16});
    EXPECT_EQ(source.validation->size(), 4);
    ASSERT_TRUE(source.test);
    EXPECT_EQ(source.test->size(), 10);
    EXPECT_EQ(source.test->get(0).data.sizes(), at::IntArrayRef({3, 16, 16}));
    EXPECT_EQ(source.index, before.index) << "a run that was started without it goes on";
    EXPECT_NE(source.test_index, before.test_index);
    EXPECT_EQ(source.folders.size(), 3U);
  }
}

TEST(OpenImageFolder, WithTrainAndTestAloneTheTestValidates) {
  const toys::Folder folder;
  write_classes(folder.path + "/train", 3);
  write_classes(folder.path + "/test", 2);
  const auto source = open_image_folder({.data = folder.path, .input_size = 16});
  EXPECT_EQ(source.validation->size(), 4);
  EXPECT_FALSE(source.test);
  EXPECT_THAT(source.warnings, ::testing::IsEmpty());
}

// As its archive is unpacked; its test part has no classes.
TEST(OpenImageFolder, TinyImagenet) {
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
  const auto source = open_image_folder({.data = folder.path, .input_size = 8});
  EXPECT_THAT(source.class_names, ::testing::ElementsAre("n01", "n02"));
  EXPECT_EQ(source.train->size(), 6);
  ASSERT_EQ(source.validation->size(), 6);
  for (std::int64_t i = 0; i < 6; ++i) {
    const auto sample = source.validation->get(i);
    EXPECT_EQ(sample.target.item<std::int64_t>(), i / 3);  // val_0, 2, 4, 1, 3, 5.
  }
  EXPECT_FALSE(source.test);
  EXPECT_THAT(source.warnings,
              ::testing::ElementsAre(::testing::HasSubstr("/test' is not scored")));
  // Another class of the same image is other data.
  annotations.replace(annotations.find("n01"), 3, "n02");
  std::ofstream(folder.path + "/val/val_annotations.txt") << annotations;
  EXPECT_NE(open_image_folder({.data = folder.path, .input_size = 8}).index, source.index);
}

TEST(OpenImageFolder, HflipIsAProbabilityOfFolders) {
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
    const auto source = open_image_folder({.data = folder.path, .input_size = 2, .hflip = hflip});
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

TEST(OpenImageFolder, WithoutPartsIsSplitByTheSeed) {
  const toys::Folder folder;
  write_classes(folder.path, 10);
  const auto parts_with = [&](std::uint64_t seed) {
    const auto source = open_image_folder({.data = folder.path, .seed = seed});
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

TEST(OpenImageFolder, NoBadFileIsReplacedByOneOfTheOtherPart) {
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
  const auto before = open_image_folder(config);
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
    const auto source = open_image_folder(config);
    const auto& part = in_training ? source.train : source.validation;
    for (std::int64_t i = 0; i < part->size(); ++i) {
      const bool counts = in_training || indices[static_cast<std::size_t>(i)] == good;
      EXPECT_EQ(taken(part, i), counts ? good : good % 10 + 10 * data::kNotCounted);
    }
  }
}

TEST(OpenImageFolder, ClassesOfBothPartsMustBeTheSame) {
  const toys::Folder folder;
  write_classes(folder.path + "/train", 1);
  write_classes(folder.path + "/val", 1);
  write_image(folder.path + "/val/bird/0.ppm", 1);
  EXPECT_THAT([&] { open_image_folder({.data = folder.path}); },
              ::testing::ThrowsMessage<IoError>(::testing::HasSubstr("'bird'")));
}

TEST(OpenImageFolder, WithAPartForTrainingAloneIsSplitByTheSeed) {
  const toys::Folder folder;
  write_classes(folder.path + "/train", 10);
  write_image(folder.path + "/notes/0.ppm", 1);  // Beside it, and no class.
  const auto source = open_image_folder({.data = folder.path, .input_size = 16});
  EXPECT_EQ(source.train->size(), 18);
  EXPECT_EQ(source.validation->size(), 2);
  EXPECT_TRUE(source.is_split_by_seed);
  EXPECT_THAT(source.class_names, ::testing::ElementsAre("cat", "dog"));
  EXPECT_THAT(source.description, ::testing::HasSubstr("/train'"));
  // As the part that was given by itself, but under the name of the whole.
  const auto part = open_image_folder({.data = folder.path + "/train", .input_size = 16});
  EXPECT_EQ(source.index, part.index);
  EXPECT_NE(source.name, part.name);
  EXPECT_EQ(open_image_folder({.data = folder.path, .val_split = 0.5}).train->size(), 10);
  EXPECT_EQ(open_image_folder({.data = folder.path}).index, source.index);
}

}  // namespace
}  // namespace lockstep::train
