// A folder of image files of several kinds for tests of data sets.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "lockstep/data/transforms/compose.h"
#include "tests/data/decode/seeds.h"
#include "tests/data/files.h"
#include "tests/data/pictures.h"

namespace lockstep::data {

// Twelve images of three classes: JPEG, PNG and PPM.
inline void write_image_files(const std::string& root) {
  const std::vector<std::string> seeds = {
      "jpeg/420.jpg",  "jpeg/444-restarts.jpg", "jpeg/cmyk.jpg", "jpeg/gray.jpg",
      "jpeg/exif.jpg", "jpeg/progressive.jpg",  "png/2-8.png",   "png/3-4.png"};
  for (std::size_t i = 0; i < 12; ++i) {
    const std::string name =
        root + "/" + static_cast<char>('a' + i % 3) + "/" + std::to_string(10 + i);
    std::filesystem::create_directories(std::filesystem::path(name).parent_path());
    if (i < seeds.size()) {
      write_file(name + seeds[i].substr(seeds[i].rfind('.')), seed_file(seeds[i]));
    } else {
      const auto height = static_cast<std::int64_t>(20 + i);
      write_file(name + ".ppm", "P6 30 " + std::to_string(height) + " 255\n" +
                                    pixels_text(test_picture({height, 30})));
    }
  }
}

inline Compose random_crops_of_8() {
  return Compose({RandomResizedCrop{.size = 8}, RandomHorizontalFlip{}, ToTensor{},
                  Normalize{.mean = kImageNetMean, .std = kImageNetStd}});
}

}  // namespace lockstep::data
