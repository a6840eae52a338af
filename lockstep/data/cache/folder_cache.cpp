#include "lockstep/data/cache/folder_cache.h"

#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <span>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "lockstep/base/abandoned_files.h"
#include "lockstep/base/error.h"
#include "lockstep/base/memory.h"
#include "lockstep/base/run_on_threads.h"
#include "lockstep/data/cache/shared_file.h"
#include "lockstep/data/readers/bad_files.h"
#include "lockstep/data/readers/image_file.h"
#include "lockstep/data/transforms/get_params.h"
#include "lockstep/data/transforms/resample.h"

namespace lockstep::data {
namespace {

constexpr std::string_view kDiskCachePrefix = "lockstep-images-";
constexpr std::int64_t kSamples = 32;  // Images that are decoded to guess the size of all.
// Raise it when decode_image() or resize() gives other pixels.
constexpr std::uint64_t kPixelsVersion = 1;
constexpr std::size_t kMostStatThreads = 16;

// FNV-1a of 64 bits: tells folders apart; nobody gains by forging it.
class Hash {
 public:
  void add(std::string_view text) {
    for (const char c : text) {
      value_ = (value_ ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    }
  }
  void add(std::uint64_t number) {
    for (int i = 0; i < 8; ++i, number >>= 8) {
      value_ = (value_ ^ (number & 0xff)) * 0x100000001b3;
    }
  }
  [[nodiscard]] std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325;
};

std::string hex(std::uint64_t number) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(number));
  return text;
}

std::uint64_t file_hash(const std::string& root, const FolderImage& image) {
  Hash hash;
  hash.add(image.path);
  hash.add(static_cast<std::uint64_t>(image.label));
  struct stat status{};
  if (::stat((root + "/" + image.path).c_str(), &status) == 0) {
    hash.add(static_cast<std::uint64_t>(status.st_size));
    hash.add(static_cast<std::uint64_t>(status.st_mtim.tv_sec));
    hash.add(static_cast<std::uint64_t>(status.st_mtim.tv_nsec));
    // Copies may have the old date; these cannot be set back.
    hash.add(static_cast<std::uint64_t>(status.st_ctim.tv_sec));
    hash.add(static_cast<std::uint64_t>(status.st_ctim.tv_nsec));
    hash.add(static_cast<std::uint64_t>(status.st_ino));
  }
  return hash.value();
}

void require_local(const std::string& folder) {
  struct statfs disk{};
  if (::statfs(folder.c_str(), &disk) != 0) {
    return;  // The caller that opens the file there says why.
  }
  if (const auto name = network_file_system(static_cast<std::uint64_t>(disk.f_type))) {
    throw UsageError("image cache on the disk: '" + folder + "' is on " + std::string(*name) +
                     ", which other hosts may write to, expected a disk of this host; choose "
                     "another folder, or kRam");
  }
}

std::string absolute(const std::string& path) {
  const std::unique_ptr<char, void (*)(void*)> real(::realpath(path.c_str(), nullptr), ::free);
  return real ? real.get() : path;
}

}  // namespace

std::uint64_t folder_key(const ImageFolderIndex& index, const std::string& decoders) {
  std::vector<std::uint64_t> hashes(index.images.size());
  std::atomic<std::size_t> next = 0;
  const std::size_t cores = std::max(std::thread::hardware_concurrency(), 1U);
  run_on_threads(std::min({cores, kMostStatThreads, hashes.size()}), [&] {
    for (std::size_t i = next++; i < hashes.size(); i = next++) {
      hashes[i] = file_hash(index.root, index.images[i]);
    }
  });
  Hash hash;
  hash.add(decoders);
  hash.add(kPixelsVersion);
  for (const std::uint64_t each : hashes) {
    hash.add(each);
  }
  return hash.value();
}

FolderCache::FolderCache(ImageFolderIndex index, const FolderCacheOptions& options)
    : index_(std::move(index)), options_(options) {
  if (options_.place == CachePlace::kNone) {
    throw UsageError("image cache: its place is kNone, expected kRam or kDisk");
  }
  const bool in_ram = options_.place == CachePlace::kRam;
  if (in_ram) {
    options_.folder = kMemoryCacheFolder;
  } else if (options_.folder.empty()) {
    throw UsageError("image cache on the disk: there is no folder, expected one to write to");
  } else {
    require_local(options_.folder);
  }
  options_.decoding.fast = false;
  Hash place;
  place.add(std::uint64_t{::geteuid()});  // Nobody can open another user's file.
  place.add(absolute(index_.root));
  place.add(static_cast<std::uint64_t>(options_.shorter_side));
  place.add(std::uint64_t{options_.decoding.apply_exif_orientation});
  place.add(static_cast<std::uint64_t>(options_.decoding.max_pixels));
  const std::uint64_t key = folder_key(index_);
  const std::string kind(in_ram ? kMemoryCachePrefix : kDiskCachePrefix);
  const std::string prefix = kind + hex(place.value()) + "-";
  const std::string name = prefix + hex(key);
  remove_abandoned_files(options_.folder, in_ram ? kind : prefix, name);
  const std::string path = options_.folder + "/" + name;
  cache_ = std::make_unique<ImageCache>(
      ImageCacheOptions{.path = path,
                        .key = key ^ place.value(),
                        .images = static_cast<std::int64_t>(index_.images.size()),
                        .bytes = expected_bytes(),
                        .in_memory = in_ram});
}

Image FolderCache::decode(std::int64_t index) const {
  const std::string path = index_.root + "/" + index_.images[static_cast<std::size_t>(index)].path;
  try {
    const std::string file = read_image_file(path);
    Image image = decode_image(std::as_bytes(std::span(file)), options_.decoding);
    const std::int64_t shorter = std::min(image.width, image.height);
    if (options_.shorter_side > 0 && shorter > options_.shorter_side) {
      const Size size =
          get_params(Resize{.size = options_.shorter_side}, {image.height, image.width});
      image = resize(image, size, Interpolation::kBilinear);
    }
    return image;
  } catch (const NotTheFile& error) {
    throw NotTheFile("image '" + path + "': " + error.what());
  } catch (const IoError& error) {
    throw IoError("image '" + path + "': " + error.what());
  }
}

// From some images, spread over all: the same in each process.
std::uint64_t FolderCache::expected_bytes() const {
  const auto count = static_cast<std::int64_t>(index_.images.size());
  const std::int64_t samples = std::min(count, kSamples);
  std::uint64_t sum = 0;
  std::uint64_t good = 0;
  for (std::int64_t i = 0; i < samples; ++i) {
    try {
      sum += decode(i * count / samples).bytes();
      ++good;
    } catch (const NotTheFile&) {
      throw;
    } catch (const IoError&) {  // The one who reads it will hear of it.
    }
  }
  const std::uint64_t mean = good > 0 ? sum / good + 64 : 0;
  return mean * static_cast<std::uint64_t>(count);
}

CachedImage FolderCache::get(std::int64_t index) {
  if (const auto view = cache_->get(index)) {
    return {.own = {}, .view = *view};
  }
  CachedImage image{.own = decode(index), .view = {}};
  image.view = image.own;
  cache_->put(index, image.view);
  return image;
}

std::string FolderCache::summary() const {
  const std::string why = cache_->why_full();
  return "image cache '" + cache_->path() + "': " + size_text(cache_->used_bytes()) + " in use" +
         (why.empty() ? "" : "; it keeps no more images: " + why);
}

}  // namespace lockstep::data
