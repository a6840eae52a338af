#include "lockstep/log/summary_writer.h"

#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "lockstep/base/error.h"
#include "lockstep/base/host.h"
#include "lockstep/base/text/utf8.h"
#include "lockstep/log/event.h"
#include "lockstep/log/record.h"

namespace lockstep::log {
namespace {

constexpr int kMostNames = 1000;  // Files of one process in one second.

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// TensorBoard's names: it reads the files of a folder in their order. `number` tells the writers of
// one process and second from each other.
std::string file_name(int number, const std::string& suffix) {
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%010lld", static_cast<long long>(now()));
  return std::string("events.out.tfevents.") + seconds + "." + host_name() + "." +
         std::to_string(::getpid()) + "." + std::to_string(number) + suffix;
}

std::unique_ptr<LogFile> make_file(const std::string& folder, const SummaryWriterOptions& options) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error && !std::filesystem::is_directory(folder)) {
    throw IoError("SummaryWriter: making the folder '" + folder + "': " + error.message());
  }
  for (int number = 0;; ++number) {
    const auto path = folder + "/" + file_name(number, options.filename_suffix);
    try {
      return std::make_unique<LogFile>(path, OpenLog::kNew, options.on_warning);
    } catch (const IoError&) {
      // A name that is taken, by this process or by that of a container with its host name and
      // number, leads to the next one.
      if (number == kMostNames || !std::filesystem::exists(path, error)) {
        throw;
      }
    }
  }
}

}  // namespace

SummaryWriter::SummaryWriter(const std::string& log_dir, const SummaryWriterOptions& options)
    : file_(make_file(log_dir, options)) {
  add({.file_version = kFileVersion, .writer = "lockstep"});
  if (options.purge_step) {
    add({.step = *options.purge_step, .file_version = kFileVersion});
    add({.step = *options.purge_step, .session_start = true});
  }
}

SummaryWriter::~SummaryWriter() = default;

void SummaryWriter::add(Event event) {
  event.wall_time = now();
  file_->append(frame_record(encode_event(event)));
}

void SummaryWriter::add_scalar(const std::string& tag, double value, std::int64_t global_step) {
  add({.step = global_step, .summary = {{valid_utf8(tag), static_cast<float>(value)}}});
}

void SummaryWriter::add_text(const std::string& tag, const std::string& text,
                             std::int64_t global_step) {
  add({.step = global_step, .summary = {{valid_utf8(tag + "/text_summary"), valid_utf8(text)}}});
}

void SummaryWriter::add_histogram(const std::string& tag, std::span<const double> values,
                                  std::int64_t global_step) {
  add({.step = global_step, .summary = {{valid_utf8(tag), make_histogram(values)}}});
}

void SummaryWriter::add_histogram(const std::string& tag, std::span<const float> values,
                                  std::int64_t global_step) {
  add({.step = global_step, .summary = {{valid_utf8(tag), make_histogram(values)}}});
}

void SummaryWriter::flush() { file_->flush(); }

// The file stays, so that other threads may still be in a call.
void SummaryWriter::close() { file_->close(); }

}  // namespace lockstep::log
