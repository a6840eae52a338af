// Goes through a data set with every rank loading its part, and on from where it was left.
//
//   lockstep run --nproc-per-node 2 build/bin/examples/load_data POSITION_FILE [BATCHES [FOLDER]]
//
// It stops after BATCHES batches of an epoch and writes where it is; the next run goes on from
// there, with as many ranks as you like. FOLDER has a folder of image files for each class; without
// it images are made up.
#include <charconv>
#include <cstdio>
#include <fstream>
#include <memory>
#include <optional>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/comm/init_process_group.h"
#include "lockstep/data/datasets/generated_images.h"
#include "lockstep/data/datasets/image_folder_dataset.h"
#include "lockstep/data/loader/data_loader.h"

namespace data = lockstep::data;

// Each image is decoded once, by the rank that needs it first, and kept in memory for all ranks;
// the crops are new ones in each epoch. Up to ten files may be bad.
std::shared_ptr<const data::ImageFolder> open_folder(const std::string& folder) {
  const data::Compose transform(
      {data::RandomResizedCrop{.size = 32}, data::RandomHorizontalFlip{}, data::ToTensor{}});
  return std::make_shared<const data::ImageFolder>(
      data::index_image_folder(folder), transform,
      data::ImageReading{.cache = data::CachePlace::kRam, .max_bad = 10});
}

// Nothing if there is no such file yet.
std::optional<data::SamplerPosition> read_position(const std::string& path) {
  std::ifstream file(path);
  if (!file) {
    return std::nullopt;
  }
  data::SamplerPosition position;
  std::string more;
  if (!(file >> position.seed >> position.epoch >> position.consumed) || file >> more) {
    throw lockstep::IoError("'" + path +
                            "' is damaged, expected seed, epoch and consumed samples; remove it to "
                            "begin with epoch 0");
  }
  return position;
}

void write_position(const std::string& path, const data::SamplerPosition& position) {
  std::ofstream file(path);
  file << position.seed << ' ' << position.epoch << ' ' << position.consumed << std::flush;
  if (!file) {
    throw lockstep::IoError("'" + path + "' cannot be written, so the next run would not go on");
  }
}

std::int64_t number_of_batches(const std::string& text) {
  std::int64_t value = 0;
  const auto* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || rest != end || value < 1) {
    throw lockstep::UsageError("BATCHES is '" + text + "', expected a whole number from 1");
  }
  return value;
}

// Behind the last sample of an epoch: the start of the next one.
data::SamplerPosition next_start(data::SamplerPosition position, std::int64_t size) {
  if (position.consumed >= size) {
    ++position.epoch;
    position.consumed = 0;
  }
  return position;
}

int main(int argc, char** argv) try {
  if (argc < 2) {
    throw lockstep::UsageError("expected POSITION_FILE [BATCHES [FOLDER]]");
  }
  const std::int64_t most_batches = argc > 2 ? number_of_batches(argv[2]) : 1'000'000;
  auto world = lockstep::init_process_group();
  const auto files = argc > 3 ? open_folder(argv[3]) : nullptr;
  std::shared_ptr<const data::Dataset> images = files;
  if (!files) {
    images = std::make_shared<data::ImageDataset>(data::generated_images({.size = 600}));
  }
  data::DataLoader loader(
      images, {.batch_size = 60 / world.size(),
               .sampler = data::DistributedSampler(images->size(), world.size(), world.rank()),
               .num_workers = data::kAuto});
  if (const auto saved = read_position(argv[1])) {
    loader.load_state_dict(*saved);
  }

  std::int64_t batches = 0;
  double brightness = 0;
  for (auto& [pixels, labels] : loader) {
    brightness += pixels.mean().item<double>();  // Your training step.
    if (++batches == most_batches) {
      break;
    }
  }
  const auto position = loader.state_dict();
  world.barrier();  // All have read the old position, and are here.
  if (world.rank() == 0) {
    write_position(argv[1], next_start(position, images->size()));
  }
  std::printf("rank %d of %d: %d batches, mean brightness %.4f; %d of %d images of epoch %d\n",
              world.rank(), world.size(), static_cast<int>(batches),
              batches == 0 ? 0 : brightness / static_cast<double>(batches),
              static_cast<int>(position.consumed), static_cast<int>(images->size()),
              static_cast<int>(position.epoch));
  if (files && world.rank() == 0) {
    std::printf("%s\n", files->summary().c_str());  // Bad files, too.
  }
} catch (const lockstep::Error& error) {
  std::fprintf(stderr, "load_data: %s\n", error.what());
  return 1;
}
