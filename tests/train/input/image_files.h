// Folders of tiny images, for tests of data.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

namespace lockstep::train::toys {

inline void write_image(const std::string& path, int value) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << "P6 8 8 255\n"
                                        << std::string(192, static_cast<char>(value));
}

inline void write_classes(const std::string& root, int images) {
  for (const char* name : {"cat", "dog"}) {
    for (int i = 0; i < images; ++i) {
      write_image(root + "/" + name + "/" + std::to_string(i) + ".ppm", i);
    }
  }
}

}  // namespace lockstep::train::toys
