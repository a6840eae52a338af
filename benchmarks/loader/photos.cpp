#include "benchmarks/loader/photos.h"

#include <cstddef>
#include <cstdint>
#include <cstdio>
// libjpeg's header uses types of the two before it.
#include <jpeglib.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <exception>
#include <filesystem>
#include <random>
#include <thread>
#include <vector>

#include "lockstep/base/fd.h"

namespace lockstep::bench {
namespace {

struct Size {
  int width = 0;
  int height = 0;
};

// Random values on a lattice of `cell` pixels, with straight lines between them.
void add_noise(std::vector<float>& plane, Size size, float cell, float strength,
               std::mt19937& random) {
  const int columns = static_cast<int>(static_cast<float>(size.width) / cell) + 2;
  const int rows = static_cast<int>(static_cast<float>(size.height) / cell) + 2;
  std::vector<float> lattice(static_cast<std::size_t>(columns * rows));
  for (float& value : lattice) {
    value = (static_cast<float>(random() >> 8) / 8388608.0F - 1.0F) * strength;
  }
  for (int y = 0; y < size.height; ++y) {
    const float place_y = static_cast<float>(y) / cell;
    const int row = static_cast<int>(place_y);
    const float down = place_y - static_cast<float>(row);
    const float* above = lattice.data() + row * columns;
    const float* below = above + columns;
    float* pixel = plane.data() + y * size.width;
    for (int x = 0; x < size.width; ++x) {
      const float place_x = static_cast<float>(x) / cell;
      const int column = static_cast<int>(place_x);
      const float right = place_x - static_cast<float>(column);
      const float top = above[column] + (above[column + 1] - above[column]) * right;
      const float bottom = below[column] + (below[column + 1] - below[column]) * right;
      pixel[x] += top + (bottom - top) * down;
    }
  }
}

// Coarse structures are strong and fine ones weak, as in photographs.
std::vector<std::uint8_t> make_pixels(Size size, unsigned seed) {
  std::mt19937 random(seed);
  const auto pixels = static_cast<std::size_t>(size.width * size.height);
  std::array<std::vector<float>, 3> planes;
  std::vector<float> light(pixels, 128.0F);
  for (const auto& [cell, strength] :
       {std::pair(160.0F, 90.0F), std::pair(60.0F, 50.0F), std::pair(21.0F, 30.0F),
        std::pair(7.0F, 22.0F), std::pair(2.5F, 16.0F), std::pair(1.0F, 12.0F)}) {
    add_noise(light, size, cell, strength, random);
  }
  std::vector<std::uint8_t> bytes(pixels * 3);
  for (std::size_t channel = 0; channel < 3; ++channel) {
    auto& plane = planes[channel];
    plane = light;
    add_noise(plane, size, 90.0F, 40.0F, random);
    add_noise(plane, size, 12.0F, 12.0F, random);
    for (std::size_t i = 0; i < pixels; ++i) {
      bytes[i * 3 + channel] = static_cast<std::uint8_t>(std::clamp(plane[i], 0.0F, 255.0F));
    }
  }
  return bytes;
}

void write_jpeg(const std::string& path, Size size, unsigned seed) {
  auto pixels = make_pixels(size, seed);
  std::FILE* file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) {
    throw_errno("writing '" + path + "'");
  }
  jpeg_compress_struct jpeg{};
  jpeg_error_mgr errors{};
  jpeg.err = jpeg_std_error(&errors);  // Ends the program.
  jpeg_create_compress(&jpeg);
  jpeg_stdio_dest(&jpeg, file);
  jpeg.image_width = static_cast<JDIMENSION>(size.width);
  jpeg.image_height = static_cast<JDIMENSION>(size.height);
  jpeg.input_components = 3;
  jpeg.in_color_space = JCS_RGB;
  jpeg_set_defaults(&jpeg);  // 4:2:0.
  jpeg_set_quality(&jpeg, 90, TRUE);
  jpeg_start_compress(&jpeg, TRUE);
  while (jpeg.next_scanline < jpeg.image_height) {
    JSAMPROW row = pixels.data() + static_cast<std::size_t>(jpeg.next_scanline) *
                                       static_cast<std::size_t>(size.width) * 3;
    jpeg_write_scanlines(&jpeg, &row, 1);
  }
  jpeg_finish_compress(&jpeg);
  jpeg_destroy_compress(&jpeg);
  if (std::fclose(file) != 0) {
    throw_errno("writing '" + path + "'");
  }
}

std::string numbered(const std::string& folder, const char* format, int number) {
  char name[32];
  std::snprintf(name, sizeof name, format, number);
  return folder + "/" + name;
}

// A quarter of them upright. Each follows from its number, so threads may share the work.
void write_photos(const std::string& folder, int count, Size size) {
  for (int i = 0; i < std::min(count, 10); ++i) {
    std::filesystem::create_directories(numbered(folder, "c%d", i));
  }
  std::atomic<int> next = 0;
  std::atomic<bool> failed = false;
  std::exception_ptr error;
  const auto work = [&] {
    try {
      for (int i = next++; i < count && !failed; i = next++) {
        write_jpeg(numbered(numbered(folder, "c%d", i % 10), "%05d.jpg", i),
                   i % 4 == 0 ? Size{size.height, size.width} : size, static_cast<unsigned>(i));
      }
    } catch (...) {
      if (!failed.exchange(true)) {
        error = std::current_exception();
      }
    }
  };
  {
    std::vector<std::jthread> threads;
    for (unsigned i = 1; i < std::thread::hardware_concurrency(); ++i) {
      threads.emplace_back(work);
    }
    work();
  }
  if (error) {
    std::rethrow_exception(error);
  }
}

}  // namespace

void make_photos(const std::string& folder, int count) {
  write_photos(folder, count, {.width = 500, .height = 375});
}

void make_large_photos(const std::string& folder, int count) {
  write_photos(folder, count, {.width = 1600, .height = 1200});
}

void make_small_files(const std::string& folder, int count) {
  constexpr int kOriginals = 100;  // A file has some ten thousand links at most.
  const std::string originals = folder + "-originals";
  std::filesystem::create_directories(originals);
  for (int i = 0; i < kOriginals; ++i) {
    write_jpeg(numbered(originals, "%d.jpg", i), {32, 32}, static_cast<unsigned>(i));
  }
  for (int i = 0; i < count; ++i) {
    const std::string of_class = numbered(folder, "c%03d", i % 1000);
    if (i < 1000) {
      std::filesystem::create_directories(of_class);
    }
    std::filesystem::create_hard_link(numbered(originals, "%d.jpg", i % kOriginals),
                                      numbered(of_class, "%06d.jpg", i));
  }
}

}  // namespace lockstep::bench
