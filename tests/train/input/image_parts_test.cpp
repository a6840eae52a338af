#include "lockstep/train/input/image_parts.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "lockstep/base/error.h"
#include "lockstep/comm/spawn.h"
#include "tests/support/child.h"
#include "tests/train/toys.h"

namespace lockstep::train {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

void write_bytes(const std::string& path, const std::string& bytes) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << bytes;
}

const std::string& ppm() {
  static const std::string bytes = "P6 8 8 255\n" + std::string(192, 'x');
  return bytes;
}

data::ImageFolderIndex index_of_size(std::size_t images) {
  data::ImageFolderIndex index;
  index.images.resize(images);
  return index;
}

TEST(ImageReading, FollowsTheFlags) {
  const TrainConfig config{.max_bad = 7,
                           .decode = "fast",
                           .cache = "disk",
                           .cache_dir = "folder",
                           .cache_shorter_side = 64};
  const auto train = train_reading(config, index_of_size(10));
  EXPECT_TRUE(train.decoding.fast);
  EXPECT_EQ(train.cache, data::CachePlace::kDisk);
  EXPECT_EQ(train.cache_folder, "folder");
  EXPECT_EQ(train.cache_shorter_side, 64);
  EXPECT_EQ(train.max_bad, 7);
  EXPECT_FALSE(evaluation_reading(config, index_of_size(10)).decoding.fast);
  EXPECT_EQ(train_reading({.cache = "ram"}, index_of_size(10)).cache, data::CachePlace::kRam);
  EXPECT_EQ(train_reading({}, index_of_size(10)).cache, data::CachePlace::kNone);
}

TEST(ImageReading, OneFileInAHundredMayBeBad) {
  EXPECT_EQ(train_reading({}, index_of_size(10)).max_bad, 1);
  EXPECT_EQ(evaluation_reading({}, index_of_size(1999)).max_bad, 19);
  EXPECT_EQ(train_reading({.max_bad = 0}, index_of_size(1999)).max_bad, 0);
}

TEST(IndexTestPart, IsThereOrSaysWhyNot) {
  const toys::Folder folder;
  for (const char* part : {"train", "val"}) {
    for (const char* name : {"cat", "dog"}) {
      write_bytes(folder.path + "/" + part + "/" + name + "/0.ppm", ppm());
    }
  }
  const auto train = data::index_image_folder(folder.path + "/train");
  std::vector<std::string> warnings;
  EXPECT_FALSE(index_test_part("", train, warnings));
  EXPECT_THAT(warnings, IsEmpty());
  write_bytes(folder.path + "/test/0.ppm", ppm());  // Without classes.
  EXPECT_FALSE(index_test_part(folder.path + "/test", train, warnings));
  EXPECT_THAT(warnings, ElementsAre(HasSubstr("/test' is not scored: ")));
  warnings.clear();
  for (const char* name : {"cat", "dog"}) {
    write_bytes(folder.path + "/test/" + name + "/0.ppm", ppm());
  }
  EXPECT_EQ(index_test_part(folder.path + "/test", train, warnings).value().images.size(), 2U);
  EXPECT_THAT(warnings, IsEmpty());
}

TEST(RequireFittingFlags, RefusesThoseOfOtherData) {
  const auto table = toys::table();
  EXPECT_NO_THROW(require_fitting_flags({}, table));
  for (const TrainConfig& config :
       {TrainConfig{.decode = "fast"}, TrainConfig{.cache = "ram"}, TrainConfig{.max_bad = 3},
        TrainConfig{.hflip = 0.5}, TrainConfig{.crop_padding = 4}, TrainConfig{.mixup = 0.5},
        TrainConfig{.cutmix = 1}, TrainConfig{.reprob = 0.5}, TrainConfig{.input_size = 96}}) {
    EXPECT_THAT([&] { require_fitting_flags(config, table); },
                ThrowsMessage<UsageError>(HasSubstr("is a table; HINT: leave --")));
  }
  const toys::Folder folder;
  write_bytes(folder.path + "/a/0.ppm", ppm());
  auto photos = toys::table();
  photos.input = {3, 8, 8};
  photos.folders = {
      {"validation", std::make_shared<data::ImageFolder>(data::index_image_folder(folder.path))}};
  EXPECT_NO_THROW(require_fitting_flags({.decode = "fast", .hflip = 0.5}, photos));
  EXPECT_NO_THROW(require_fitting_flags({.input_size = 96}, photos));
  EXPECT_NO_THROW(require_fitting_flags({.label = "class"}, table));
  EXPECT_THAT([&] { require_fitting_flags({.label = "class"}, photos); },
              ThrowsMessage<UsageError>(HasSubstr("--label is for a table, but")));
  EXPECT_THAT([&] { require_fitting_flags({.crop_padding = 4}, photos); },
              ThrowsMessage<UsageError>(HasSubstr("is a folder of image files")));
}

TEST(DescribeData, HasAllPartsAndWhatWasSkipped) {
  auto source = toys::table(5, 3);
  source.description = "'somewhere'";
  EXPECT_EQ(describe_data(source),
            "5 training and 3 validation rows in 3 classes from 'somewhere'");
  const toys::Folder folder;
  write_bytes(folder.path + "/a/0.ppm", ppm());
  write_bytes(folder.path + "/a/notes.txt", "");
  const auto images = std::make_shared<data::ImageFolder>(data::index_image_folder(folder.path));
  source.test = images;
  source.folders = {{"validation", images}, {"test", images}};
  EXPECT_EQ(describe_data(source),
            "5 training, 3 validation and 1 test rows in 3 classes from 'somewhere'\n'" +
                folder.path +
                "': 1 image in 1 class, 1 to 1 in a class\n"
                "skipped 1: the name does not end like an image's (a/notes.txt)");
}

// Each rank meets one of its own and one that both meet: three, of which none has met more than
// two.
TEST(RequireFewBadFiles, CountsThoseOfAllRanksEachOnce) {
  const toys::Folder folder;
  for (int i = 0; i < 6; ++i) {
    write_bytes(folder.path + "/a/" + std::to_string(i) + ".ppm", i % 2 == 0 ? "" : ppm());
  }
  const int status = test::run_in_child([&] {
    spawn(2, [&](int rank) {
      const auto world = init_process_group({.backend = "gloo"});
      for (const std::int64_t limit : {3, 2}) {
        const auto images = std::make_shared<data::ImageFolder>(
            data::index_image_folder(folder.path), data::ImageReading{.max_bad = limit});
        (void)images->get(2 * rank);
        (void)images->get(4);
        DataSource source = toys::table();
        source.folders = {{.name = "training", .images = images, .is_scored = false}};
        std::string error;
        try {
          require_few_bad_files(world, source);
        } catch (const IoError& caught) {
          error = caught.what();
        }
        if ((limit == 3) != error.empty()) {
          throw UsageError("with " + std::to_string(limit) + ": '" + error + "'");
        }
        const auto of_all = world.all_gather_bytes(error);
        if (of_all.at(0) != of_all.at(1)) {
          throw UsageError("ranks differ: " + of_all.at(0) + "\n" + of_all.at(1));
        }
      }
    });
    return 0;
  });
  EXPECT_EQ(status, 0);
}

// Rank 0 meets two files, rank 1 these and another one.
TEST(ImageNewsOfRanks, HasEachBadFileOnce) {
  const toys::Folder folder;
  for (int i = 0; i < 5; ++i) {
    write_bytes(folder.path + "/a/" + std::to_string(i) + ".ppm", i < 3 ? "" : ppm());
  }
  const int status = test::run_in_child([&] {
    spawn(2, [&](int rank) {
      const auto world = init_process_group({.backend = "gloo"});
      const auto images = std::make_shared<data::ImageFolder>(data::index_image_folder(folder.path),
                                                              data::ImageReading{.max_bad = -1});
      // In place of all of them comes file 3; those between are met on the way.
      (void)images->get(2);
      if (rank == 0) {
        (void)images->get(1);
      } else {
        (void)images->get(0);
      }
      if (images->bad_files().count() != (rank == 0 ? 2 : 3)) {
        throw UsageError("rank " + std::to_string(rank) + " met others");
      }
      DataSource source = toys::table();
      source.folders = {{.name = "training", .images = images, .is_scored = false}};
      const auto news = image_news(world, source);
      const auto& lines = news.lines;
      if (news.bad_files != 3 || lines.at(0) !=
                                     "3 files cannot be read; other samples take their "
                                     "places") {
        throw UsageError("rank " + std::to_string(rank) + ": " + lines.at(0));
      }
      if (news.bad_file_list.size() != 3) {
        throw UsageError("rank " + std::to_string(rank) + " lists " +
                         std::to_string(news.bad_file_list.size()));
      }
    });
    return 0;
  });
  EXPECT_EQ(status, 0);
}

// In whatever order they come.
TEST(ImageNewsOfRanks, NamesThePartsWhoseScoresLackFiles) {
  const toys::Folder folder;
  for (const char* part : {"val", "train", "test"}) {
    write_bytes(folder.path + "/" + part + "/a/0.ppm", "");
    write_bytes(folder.path + "/" + part + "/a/1.ppm", ppm());
  }
  write_bytes(folder.path + "/val/a/2.ppm", "");
  const auto read = [&](const std::string& part) {
    auto images = std::make_shared<data::ImageFolder>(
        data::index_image_folder(folder.path + "/" + part), data::ImageReading{.max_bad = -1});
    for (std::int64_t i = 0; i < images->size(); ++i) {
      (void)images->get(i);
    }
    return images;
  };
  DataSource source = toys::table();
  source.folders = {{"validation", read("val")},
                    {.name = "training", .images = read("train"), .is_scored = false},
                    {"test", read("test")}};
  const auto news = image_news(init_process_group(), source);
  EXPECT_EQ(news.bad_files, 4);
  EXPECT_THAT(news.lines,
              ::testing::Contains("1 file cannot be read; other samples take their places"));
  EXPECT_THAT(news.lines,
              ::testing::Contains("2 files cannot be read in '" + folder.path + "/val'"));
  EXPECT_THAT(news.lines, ::testing::Contains("scores of the validation part are without 2 files"));
  EXPECT_THAT(news.lines, ::testing::Contains("scores of the test part are without 1 file"));
  EXPECT_THAT(news.lines, ::testing::Not(::testing::Contains(HasSubstr("of the training part"))));
}

// Both parts of a folder that is split by the seed have its root.
TEST(ImageNewsOfRanks, PromisesReplacementsOnlyWhereThePartThatTrainsMetABadFile) {
  const toys::Folder folder;
  write_bytes(folder.path + "/a/0.ppm", "");
  write_bytes(folder.path + "/a/1.ppm", ppm());
  const auto index = data::index_image_folder(folder.path);
  const auto read = [&](std::int64_t i) {
    auto images = std::make_shared<data::ImageFolder>(index, data::ImageReading{.max_bad = -1});
    (void)images->get(i);
    return images;
  };
  for (const std::int64_t trained : {0, 1}) {
    DataSource source = toys::table();
    source.folders = {{.name = "training", .images = read(trained), .is_scored = false},
                      {"validation", read(0)}};
    EXPECT_THAT(
        image_news(init_process_group(), source).lines,
        ::testing::Contains(trained == 0 ? "1 file cannot be read; other samples take their places"
                                         : "1 file cannot be read in '" + folder.path + "'"));
  }
}

TEST(ImageNewsOfRanks, IsNothingWithoutImageFiles) {
  const auto news = image_news(init_process_group(), toys::table());
  EXPECT_FALSE(news.bad_files.has_value());
  EXPECT_THAT(news.lines, IsEmpty());
}

}  // namespace
}  // namespace lockstep::train
