// What is ours in `lockstep bench loader`, which starts it.
//
//   loader_job orders PIPE PHOTOS FILES
//   loader_job make-photos FOLDER COUNT
//   loader_job make-files FOLDER COUNT
//
// Rows and answers are those of benchmarks/peers/loader.py, with `fast` and `cache` beside `exact`;
// -1 workers means kAuto.
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <fcntl.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <span>

#include "benchmarks/loader/photos.h"
#include "benchmarks/orders.h"
#include "lockstep/base/error.h"
#include "lockstep/base/fd.h"
#include "lockstep/base/text.h"
#include "lockstep/data/datasets/image_folder_dataset.h"
#include "lockstep/data/datasets/tensor_dataset.h"
#include "lockstep/data/loader/data_loader.h"

namespace lockstep::bench {
namespace {

using Clock = std::chrono::steady_clock;
using data::DataLoader;
using nlohmann::json;

constexpr std::size_t kMostFileBytes = std::size_t{1} << 30;

double seconds_since(Clock::time_point began) {
  return std::chrono::duration<double>(Clock::now() - began).count();
}

json answer(double seconds, std::int64_t samples, double sum) {
  return {{"seconds", seconds}, {"samples", samples}, {"sum", sum}};
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

class Job {
 public:
  Job(std::string photos, std::string files)
      : photos_(std::move(photos)), files_(std::move(files)) {
    at::set_num_threads(1);
    const at::Tensor numbers = at::arange(60000, at::kLong);
    memory_ = std::make_shared<data::TensorDataset>(numbers.remainder(251)
                                                        .to(at::kFloat)
                                                        .view({-1, 1, 1, 1})
                                                        .expand({-1, 1, 28, 28})
                                                        .contiguous(),
                                                    numbers.remainder(10));
  }

  json carry_out(const std::string& row, int workers) {
    if (row == "memory") {
      return memory(workers);
    }
    if (row == "exact" || row == "fast") {
      return photos(workers, photo_set({.decoding = {.fast = row == "fast"}}));
    }
    if (row == "cache") {
      return photos(workers, filled_cache());
    }
    if (row == "decode") {
      return decode();
    }
    if (row == "index") {
      return index();
    }
    if (row == "first") {
      return first(workers);
    }
    throw Error("'" + row + "' is no row");
  }

 private:
  static data::DataLoaderOptions options(std::int64_t batch_size, bool shuffle, int workers) {
    return {.batch_size = batch_size,
            .shuffle = shuffle,
            .num_workers = workers < 0 ? data::kAuto : workers};
  }

  json memory(int workers) {
    return epoch(DataLoader(memory_, options(256, true, workers)), [](const data::Sample& batch) {
      return batch.data.select(1, 0).select(1, 5).select(1, 7).sum().item<double>() +
             batch.target.sum().item<double>();
    });
  }

  using PhotoSet = std::shared_ptr<const data::ImageFolder>;

  [[nodiscard]] PhotoSet photo_set(const data::ImageReading& reading) const {
    const data::Compose transform(
        {data::RandomResizedCrop{.size = 224}, data::RandomHorizontalFlip{}, data::ToTensor{},
         data::Normalize{.mean = data::kImageNetMean, .std = data::kImageNetStd}});
    return std::make_shared<const data::ImageFolder>(data::index_image_folder(photos_), transform,
                                                     reading);
  }

  // As it is in the second epoch.
  const PhotoSet& filled_cache() {
    if (!cached_) {
      cached_ = photo_set({.cache = data::CachePlace::kRam});
      photos(-1, cached_);
    }
    return cached_;
  }

  static json photos(int workers, const PhotoSet& set) {
    return epoch(DataLoader(set, options(64, true, workers)), [](const data::Sample& batch) {
      return batch.target.sum().item<double>() + static_cast<double>(batch.data.size(2));
    });
  }

  json decode() {
    const data::ImageFolder folder(data::index_image_folder(photos_));
    double sum = 0;
    const auto began = Clock::now();
    for (std::int64_t i = 0; i < folder.size(); ++i) {
      const std::string file = read_file(folder.path(i), kMostFileBytes);
      const auto image = data::decode_image(std::as_bytes(std::span(file)));
      sum += image.row(5)[7 * 3 + 1];
    }
    return answer(seconds_since(began), folder.size(), sum);
  }

  json index() {
    const auto began = Clock::now();
    const data::ImageFolder folder(data::index_image_folder(files_));
    const double seconds = seconds_since(began);
    double sum = 0;
    for (const auto& image : folder.index().images) {
      sum += static_cast<double>(image.label);
    }
    return answer(seconds, folder.size(), sum);
  }

  json first(int workers) {
    const auto folder = std::make_shared<data::ImageFolder>(data::index_image_folder(files_),
                                                            data::Compose({data::ToTensor{}}));
    const auto began = Clock::now();
    DataLoader loader(folder, options(256, false, workers));
    const auto batch = loader.begin();
    return answer(seconds_since(began), batch->data.size(0), batch->target.sum().item<double>());
  }

  std::string photos_;
  std::string files_;
  std::shared_ptr<data::TensorDataset> memory_;
  PhotoSet cached_;
};

void carry_out_orders(const char* pipe, const std::string& photos, const std::string& files) {
  Job job(photos, files);
  const UniqueFd orders(::open(pipe, O_RDONLY | O_CLOEXEC));
  char line[kOrderBytes + 1];
  int got = 0;
  while ((got = read_order_line(orders.get(), line)) == 1) {
    char row[kOrderBytes];
    int workers = 0;
    if (std::sscanf(line, "%47s %d", row, &workers) != 2) {
      throw Error("'" + std::string(trim(line)) + "' is no order");
    }
    std::printf("%s\n", job.carry_out(row, workers).dump().c_str());
    std::fflush(stdout);
  }
  if (got < 0) {
    throw Error("an order is cut off");
  }
}

int main_of(std::span<char*> arguments) {
  const std::string what = arguments.size() > 1 ? arguments[1] : "";
  if (what == "orders" && arguments.size() == 5) {
    carry_out_orders(arguments[2], arguments[3], arguments[4]);
  } else if (what == "make-photos" && arguments.size() == 4) {
    make_photos(arguments[2], std::atoi(arguments[3]));
  } else if (what == "make-files" && arguments.size() == 4) {
    make_small_files(arguments[2], std::atoi(arguments[3]));
  } else {
    throw UsageError("expected orders PIPE PHOTOS FILES, make-photos or make-files FOLDER COUNT");
  }
  return 0;
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) try {
  return lockstep::bench::main_of({argv, static_cast<std::size_t>(argc)});
} catch (const std::exception& error) {
  std::fprintf(stderr, "loader_job: %s\n", error.what());
  return 1;
}
