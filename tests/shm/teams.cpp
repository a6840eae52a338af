#include "tests/shm/teams.h"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "lockstep/base/error.h"

namespace lockstep::shm::testing {

namespace fs = std::filesystem;

TeamOptions small_options() {
  return {.staging_bytes = 4096, .arena_bytes = std::size_t{64} << 20, .notice = nullptr};
}

void on_threads(int size, const Body& body, const TeamOptions& options) {
  const auto teams = Team::in_process(size, options);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back(
        [&, rank] { EXPECT_NO_THROW(body(*teams[static_cast<std::size_t>(rank)])); });
  }
  for (auto& thread : threads) {
    thread.join();
  }
}

void on_processes(int size, const Body& body, const TeamOptions& options,
                  const std::vector<int>& killed) {
  FolderBoard board;
  std::fflush(nullptr);
  std::vector<pid_t> children;
  for (int rank = 0; rank < size; ++rank) {
    const pid_t child = ::fork();
    if (child == 0) {
      try {
        const auto team = Team::join(rank, size, board, soon(), options);
        body(*team);
      } catch (const std::exception& error) {
        ADD_FAILURE() << "rank " << rank << ": " << error.what();
      }
      std::fflush(nullptr);
      ::_exit(::testing::Test::HasFailure() ? 1 : 0);
    }
    children.push_back(child);
  }
  for (int rank = 0; rank < size; ++rank) {
    int status = 0;
    ::waitpid(children[static_cast<std::size_t>(rank)], &status, 0);
    if (std::find(killed.begin(), killed.end(), rank) == killed.end()) {
      EXPECT_EQ(status, 0) << "rank " << rank;
    }
  }
}

FolderBoard::FolderBoard() : owner_(::getpid()) {
  std::string name = (fs::temp_directory_path() / "lockstep-board-XXXXXX").string();
  folder_ = ::mkdtemp(name.data());
  fs::permissions(folder_, fs::perms::all);
}

FolderBoard::~FolderBoard() {
  if (::getpid() == owner_) {
    fs::remove_all(folder_);
  }
}

std::string FolderBoard::path_of(const std::string& key) const {
  std::string file = key;
  std::replace(file.begin(), file.end(), '/', '_');
  return folder_ + "/" + file;
}

void FolderBoard::post(const std::string& key, const std::string& text) {
  std::ofstream(path_of(key) + ".part") << text;
  fs::rename(path_of(key) + ".part", path_of(key));
}

std::string FolderBoard::read(const std::string& key, Deadline deadline) {
  while (!fs::exists(path_of(key))) {
    if (deadline.passed()) {
      throw PeerError("nobody posted " + key);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  std::ostringstream text;
  text << std::ifstream(path_of(key)).rdbuf();
  return text.str();
}

}  // namespace lockstep::shm::testing
