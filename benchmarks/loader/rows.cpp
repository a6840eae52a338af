#include "benchmarks/loader/rows.h"

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>

#include <chrono>
#include <functional>
#include <span>
#include <thread>
#include <utility>

#include "benchmarks/loader/entropy.h"
#include "lockstep/base/error.h"
#include "lockstep/base/fd.h"
#include "lockstep/data/loader/data_loader.h"

namespace lockstep::bench {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;
using data::DataLoader;
using nlohmann::json;

constexpr std::size_t kMostFileBytes = std::size_t{1} << 30;
constexpr double kConsumerRate = 7000;    // Images in a second.
constexpr double kConsumerSeconds = 2.0;  // So long at least.

double seconds_since(Clock::time_point began) { return Seconds(Clock::now() - began).count(); }

json answer(double seconds, std::int64_t samples, double sum) {
  return {{"seconds", seconds}, {"samples", samples}, {"sum", sum}};
}

data::DataLoaderOptions loader_options(std::int64_t batch_size, bool shuffle, int workers) {
  return {.batch_size = batch_size,
          .shuffle = shuffle,
          .num_workers = workers < 0 ? data::kAuto : workers};
}

json epoch(DataLoader loader, const std::function<double(const data::Sample&)>& check) {
  std::int64_t samples = 0;
  double sum = 0;
  const auto began = Clock::now();
  for (auto& batch : loader) {
    samples += batch.data.size(0);
    sum += check(batch);
  }
  return answer(seconds_since(began), samples, sum);
}

json photos(int workers, const std::shared_ptr<const data::ImageFolder>& set) {
  return epoch(DataLoader(set, loader_options(64, true, workers)), [](const data::Sample& batch) {
    return batch.target.sum().item<double>() + static_cast<double>(batch.data.size(2));
  });
}

// Reads each of the files and sums up what `use` makes of it.
json one_by_one(const std::string& folder,
                const std::function<double(std::span<const std::byte>)>& use) {
  const data::ImageFolder files(data::index_image_folder(folder));
  double sum = 0;
  const auto began = Clock::now();
  for (std::int64_t i = 0; i < files.size(); ++i) {
    const std::string file = read_file(files.path(i), kMostFileBytes);
    sum += use(std::as_bytes(std::span(file)));
  }
  return answer(seconds_since(began), files.size(), sum);
}

}  // namespace

LoaderRows::LoaderRows(LoaderData folders) : data_(std::move(folders)) {
  at::set_num_threads(1);
  const at::Tensor numbers = at::arange(60000, at::kLong);
  memory_ = std::make_shared<data::TensorDataset>(numbers.remainder(251)
                                                      .to(at::kFloat)
                                                      .view({-1, 1, 1, 1})
                                                      .expand({-1, 1, 28, 28})
                                                      .contiguous(),
                                                  numbers.remainder(10));
}

json LoaderRows::carry_out(const std::string& row, int workers) {
  if (row == "paced") {
    return paced(workers, filled_cache());
  }
  if (row == "paced-exact") {
    return paced(workers, photo_set("exact"));
  }
  json result = once(row, workers);
  if (result.at("seconds").get<double>() >= data_.shortest_turn) {
    return result;
  }
  double seconds = 0;
  int times = 0;
  while (seconds < data_.shortest_turn) {
    result = once(row, workers);
    seconds += result.at("seconds").get<double>();
    ++times;
  }
  result["seconds"] = seconds / times;
  return result;
}

json LoaderRows::once(const std::string& row, int workers) {
  if (row == "memory") {
    return memory(workers);
  }
  if (row == "exact" || row == "fast" || row == "large" || row == "large-fast") {
    return photos(workers, photo_set(row));
  }
  if (row == "cache") {
    return photos(workers, filled_cache());
  }
  if (row == "decode") {
    return decode();
  }
  if (row == "entropy") {
    return entropy();
  }
  if (row == "index") {
    return index();
  }
  if (row == "first") {
    return first(workers);
  }
  throw Error("'" + row + "' is no row");
}

json LoaderRows::memory(int workers) {
  return epoch(DataLoader(memory_, loader_options(256, true, workers)),
               [](const data::Sample& batch) {
                 return batch.data.select(1, 0).select(1, 5).select(1, 7).sum().item<double>() +
                        batch.target.sum().item<double>();
               });
}

const LoaderRows::Photos& LoaderRows::photo_set(const std::string& row) {
  Photos& set = sets_[row];
  if (!set) {
    const bool is_large = row.starts_with("large");
    const data::Compose transform(
        {data::RandomResizedCrop{.size = 224}, data::RandomHorizontalFlip{}, data::ToTensor{},
         data::Normalize{.mean = data::kImageNetMean, .std = data::kImageNetStd}});
    data::ImageReading reading{.decoding = {.fast = row.ends_with("fast")}};
    reading.cache = row == "cache" ? data::CachePlace::kRam : data::CachePlace::kNone;
    set = std::make_shared<const data::ImageFolder>(
        data::index_image_folder(is_large ? data_.large : data_.photos), transform, reading);
  }
  return set;
}

// As it is in the second epoch.
const LoaderRows::Photos& LoaderRows::filled_cache() {
  const bool is_new = !sets_.contains("cache");
  const Photos& set = photo_set("cache");
  if (is_new) {
    photos(-1, set);
  }
  return set;
}

json LoaderRows::decode() const {
  json result = one_by_one(data_.photos, [](std::span<const std::byte> file) {
    return static_cast<double>(data::decode_image(file).row(5)[7 * 3 + 1]);
  });
  result["library"] = "libjpeg-turbo " + jpeg_version();
  return result;
}

json LoaderRows::entropy() const {
  return one_by_one(data_.photos, [](std::span<const std::byte> file) {
    return data::image_format(file) == data::ImageFormat::kJpeg ? decode_entropy(file) : 0;
  });
}

json LoaderRows::index() const {
  const auto began = Clock::now();
  const data::ImageFolder folder(data::index_image_folder(data_.files));
  const double seconds = seconds_since(began);
  double sum = 0;
  for (const auto& image : folder.index().images) {
    sum += static_cast<double>(image.label);
  }
  return answer(seconds, folder.size(), sum);
}

json LoaderRows::first(int workers) {
  Photos& set = sets_["first"];
  if (!set) {
    set = std::make_shared<const data::ImageFolder>(data::index_image_folder(data_.files),
                                                    data::Compose({data::ToTensor{}}));
  }
  const auto began = Clock::now();
  DataLoader loader(set, loader_options(256, false, workers));
  const auto batch = loader.begin();
  return answer(seconds_since(began), batch->data.size(0), batch->target.sum().item<double>());
}

json LoaderRows::paced(int workers, const Photos& set) {
  DataLoader loader(set, loader_options(64, true, workers));
  for (auto& batch : loader) {
    (void)batch;  // Workers have begun, and memory is there.
  }
  std::int64_t samples = 0;
  Seconds waited{0};
  const auto began = Clock::now();
  auto asked = began;
  auto due = began;  // When the consumer is done with what it has; it may wake up late.
  const auto take = [&](const data::Sample& batch) {
    const auto wait = Clock::now() - asked;
    waited += wait;
    samples += batch.data.size(0);
    due += wait + std::chrono::duration_cast<Clock::duration>(
                      Seconds(static_cast<double>(batch.data.size(0)) / kConsumerRate));
    std::this_thread::sleep_until(due);
    asked = Clock::now();
  };
  while (seconds_since(began) < kConsumerSeconds) {
    for (auto& batch : loader) {
      take(batch);
    }
  }
  json result = answer(seconds_since(began), samples, 0);
  result["wait"] = waited.count();
  result["rate"] = kConsumerRate;
  return result;
}

}  // namespace lockstep::bench
