#include "lockstep/base/loaded_library.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <link.h>

#include <fstream>
#include <iterator>

namespace lockstep {
namespace {

std::string from_hexadecimal(const std::string& digits) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

std::string path_of(void* library) {
  link_map* loaded = nullptr;
  return ::dlinfo(library, RTLD_DI_LINKMAP, &loaded) == 0 ? loaded->l_name : "";
}

TEST(BuildOfLoadedLibrary, IsInTheFile) {
  const auto id = build_of_loaded_library("libc.so.6");
  ASSERT_THAT(id, ::testing::MatchesRegex("[0-9a-f]+"));
  void* library = ::dlopen("libc.so.6", RTLD_NOW);
  ASSERT_NE(library, nullptr);
  std::ifstream file(path_of(library), std::ios::binary);
  const std::string content{std::istreambuf_iterator<char>(file), {}};
  EXPECT_NE(content.find(from_hexadecimal(id)), std::string::npos);
  ::dlclose(library);
}

TEST(BuildOfLoadedLibrary, TellsLibrariesApart) {
  EXPECT_NE(build_of_loaded_library("libc.so.6"), build_of_loaded_library("libstdc++.so.6"));
  EXPECT_EQ(build_of_loaded_library("libc.so.6"), build_of_loaded_library("libc.so.6"));
}

TEST(BuildOfLoadedLibrary, IsEmptyIfItIsNotLoaded) {
  EXPECT_EQ(build_of_loaded_library("libnothing.so"), "");
  EXPECT_EQ(build_of_loaded_library("libc.so"), "");
}

}  // namespace
}  // namespace lockstep
