// A folder for a test, which is removed with all its content.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>

namespace lockstep::test {

struct TemporaryFolder {
  TemporaryFolder() : path(make()) {}
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  // The path of a file in it, which need not exist.
  [[nodiscard]] std::string file(const std::string& name) const { return path + "/" + name; }
  // Writes a file; returns its path.
  [[nodiscard]] std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(file(name)) << text;
    return file(name);
  }
  // Empty if there is no such file.
  [[nodiscard]] std::string read(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(file(name)).rdbuf();
    return text.str();
  }
  [[nodiscard]] std::set<std::string> names() const {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(path)) {
      names.insert(entry.path().filename());
    }
    return names;
  }

  const std::string path;

 private:
  static std::string make() {
    std::string name = std::filesystem::temp_directory_path() / "lockstep-test-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) {
      throw std::runtime_error("no folder like '" + name + "' can be made");
    }
    return name;
  }
};

}  // namespace lockstep::test
