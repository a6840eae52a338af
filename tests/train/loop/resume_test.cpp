#include "lockstep/train/loop/resume.h"

#include <gmock/gmock.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/comm/spawn.h"
#include "lockstep/train/checkpoint/checkpoint_writer.h"
#include "tests/support/child.h"
#include "tests/train/toys.h"

namespace lockstep::train {
namespace {

TEST(LoadOnAllRanks, OthersGetWhatRank0Reads) {
  const toys::Folder folder;
  const int status = test::run_in_child([&] {
    spawn(2, [&](int rank) {
      const auto world = init_process_group({.backend = "gloo"});
      if (rank == 0) {
        CheckpointWriter writer(folder.path + "/checkpoints");
        writer.save({.model = {{"weight", at::ones({2}) * 7}}});
        writer.wait();
      }
      const auto loaded = load_on_all_ranks(world, rank == 0 ? folder.path + "/checkpoints" : "");
      if (!loaded || loaded->checkpoint.model.at(0).second.sum().item<float>() != 14) {
        throw UsageError("another checkpoint");
      }
      if (load_on_all_ranks(world, "")) {
        throw UsageError("there is none");
      }
      try {
        (void)load_on_all_ranks(world, rank == 0 ? "/missing.pt" : "");
      } catch (const Error&) {
        return;
      }
      throw UsageError("no error");
    });
    return 0;
  });
  EXPECT_EQ(status, 0);
}

TEST(LoadOnAllRanks, AFileThatAFlagNamesAndIsNoCheckpointIsAWrongFlag) {
  const toys::Folder folder;
  const auto world = init_process_group();
  for (const std::string content : {"", "no checkpoint", "PK\x03\x04 and no more"}) {
    const auto file = folder.path + "/notes.pt";
    std::ofstream(file) << content;
    EXPECT_THAT([&] { (void)load_on_all_ranks(world, file, "--resume"); },
                ::testing::ThrowsMessage<UsageError>(::testing::AllOf(
                    ::testing::HasSubstr("--resume: "), ::testing::HasSubstr("notes.pt"),
                    ::testing::HasSubstr("HINT: give a checkpoint"))));
    EXPECT_THROW((void)load_on_all_ranks(world, file), IoError);
  }
  EXPECT_THROW((void)load_on_all_ranks(world, folder.path, "--resume"), UsageError);
  EXPECT_THROW((void)load_on_all_ranks(world, "/missing.pt", "--resume"), IoError);
  EXPECT_EQ(flag_of_resume({.resume = "best"}), "");
  EXPECT_EQ(flag_of_resume({.resume = "a.pt"}), "--resume");
}

TEST(LoadOnAllRanks, WhereAllAreDamagedTheHintNamesWhatIsLeft) {
  const toys::Folder folder;
  const auto world = init_process_group();
  for (const char* name : {"last.pt", "prev.pt"}) {
    (void)folder.write(name, "damaged");
  }
  EXPECT_THAT([&] { (void)load_on_all_ranks(world, folder.path); },
              ::testing::ThrowsMessage<UsageError>(
                  ::testing::AllOf(::testing::HasSubstr("last.pt"), ::testing::HasSubstr("prev.pt"),
                                   ::testing::HasSubstr("HINT: --resume no to start anew"))));
  (void)folder.write("best.pt", "maybe");
  EXPECT_THAT(
      [&] { (void)load_on_all_ranks(world, folder.path); },
      ::testing::ThrowsMessage<UsageError>(::testing::HasSubstr("HINT: --resume best to go")));
  EXPECT_THAT([&] { (void)load_on_all_ranks(world, folder.path, "--resume"); },
              ::testing::ThrowsMessage<UsageError>(
                  ::testing::HasSubstr("HINT: --resume " + folder.path + "/best.pt to go")));
}

// Read a second time, it would be another one for the others than for rank 0.
TEST(LoadOnAllRanks, AFileThatIsReplacedMeanwhileIsTheSameForAll) {
  const toys::Folder folder;
  const int status = test::run_in_child([&] {
    spawn(2, [&](int rank) {
      const auto world = init_process_group({.backend = "gloo"});
      const std::string file = folder.path + "/now.pt";
      std::atomic<bool> is_done = rank != 0;
      if (rank == 0) {
        for (const float version : {1.F, 2.F}) {
          const auto path = folder.path + "/" + std::to_string(static_cast<int>(version));
          CheckpointWriter writer(path);
          writer.save({.model = {{"weight", at::ones({2}) * version}}});
          writer.wait();
        }
        std::filesystem::copy_file(folder.path + "/1/last.pt", file);
      }
      std::thread replaces([&] {
        for (int i = 0; !is_done; ++i) {
          const auto next = folder.path + "/next.pt";
          std::filesystem::create_hard_link(folder.path + (i % 2 == 0 ? "/2" : "/1") + "/last.pt",
                                            next);
          std::filesystem::rename(next, file);
        }
      });
      int others = 0;
      for (int i = 0; i < 200; ++i) {
        const auto loaded = load_on_all_ranks(world, file);
        const auto own = loaded->checkpoint.model.at(0).second.sum().item<float>();
        others += on_rank_0(world, [&] { return std::to_string(own); }) != std::to_string(own);
      }
      is_done = true;
      replaces.join();
      if (others != 0) {
        throw UsageError("another file in " + std::to_string(others) + " of 200");
      }
    });
    return 0;
  });
  EXPECT_EQ(status, 0);
}

TEST(OnRank0, AnErrorIsThatOfRank0OnTheOthers) {
  const int status = test::run_in_child([] {
    spawn(2, [](int rank) {
      const auto world = init_process_group({.backend = "gloo"});
      const auto fail = [&] {
        on_rank_0(world, []() -> std::string { throw IoError("the disk is full"); });
      };
      if (rank == 0) {
        EXPECT_THAT(fail, ::testing::ThrowsMessage<IoError>("the disk is full"));
      } else {
        EXPECT_THAT(fail, ::testing::ThrowsMessage<PeerError>("rank 0: the disk is full"));
      }
      if (::testing::Test::HasFailure()) {
        throw UsageError("another error");
      }
    });
    return 0;
  });
  EXPECT_EQ(status, 0);
}

TEST(RequireWhole, NamesWhatIsRandom) {
  require_whole({});
  EXPECT_THAT([] { require_whole({"fc.weight", "fc.bias"}); },
              ::testing::ThrowsMessage<UsageError>(::testing::AllOf(
                  ::testing::HasSubstr("fc.weight, fc.bias"), ::testing::HasSubstr("HINT"))));
}

TEST(RequireSameClasses, NamesTheFirstThatDiffers) {
  const DataSource source{.class_names = {"cat", "dog"}};
  require_same_classes(source, {"cat", "dog"});
  require_same_classes(source, {});  // Another program's.
  require_same_classes({}, {"cat", "dog"});
  EXPECT_THAT([&] { require_same_classes(source, {"cat", "cow"}); },
              ::testing::ThrowsMessage<UsageError>(::testing::AllOf(
                  ::testing::HasSubstr("class 1 is 'dog' in the data and 'cow' in the checkpoint"),
                  ::testing::HasSubstr("HINT"))));
}

TEST(RequireUnseenSamples, RefusesAnotherSplitOfTheSameData) {
  const TrainConfig trained{.data = "t.csv", .seed = 1};
  auto settings = settings_of(trained);
  settings.emplace_back("the data", "9 + 1 samples");
  DataSource source{.is_split_by_seed = true, .index = "9 + 1 samples"};
  require_unseen_samples(trained, source, settings);
  const auto refused = ::testing::ThrowsMessage<UsageError>(
      ::testing::HasSubstr("--seed is '0' here and '1' there"));
  EXPECT_THAT([&] { require_unseen_samples({.data = "../t.csv"}, source, settings); }, refused);
  source.index = "5 + 5 samples";
  EXPECT_THAT(
      [&] { require_unseen_samples({.data = "t.csv", .val_split = 0.5}, source, settings); },
      refused);
  require_unseen_samples({.data = "other.csv"}, source, settings);
  require_unseen_samples({.data = "t.csv"}, source, {});  // Another program's.
  source.is_split_by_seed = false;
  require_unseen_samples({.data = "t.csv"}, source, settings);
}

TEST(ResumedText, OfAFinishedRunSaysSo) {
  const LoadedCheckpoint loaded{{}, "last.pt", ""};
  const TrainConfig config{.epochs = 3, .early_stop = 1};
  EXPECT_EQ(resumed_text(loaded, {.epoch = 1, .step_in_epoch = 4}, config),
            "resumed from 'last.pt': epoch 2, step 4");
  EXPECT_THAT(resumed_text(loaded, {.epoch = 3}, config),
              ::testing::HasSubstr("already finished, 3 of 3"));
  EXPECT_THAT(resumed_text(loaded, {.epoch = 2, .stale_epochs = 1}, config),
              ::testing::HasSubstr("already finished, 2 of 3"));
}

}  // namespace
}  // namespace lockstep::train
