#include "lockstep/launch/job/report.h"

#include <cxxabi.h>

#include <cstdlib>

#include <algorithm>
#include <csignal>
#include <iterator>

#include "lockstep/base/process/tree.h"
#include "lockstep/base/text/printable.h"
#include "lockstep/base/text/text.h"

namespace lockstep::launch {
namespace {

constexpr std::size_t kMessageLines = 5;
constexpr std::size_t kOtherLines = 10;
constexpr std::size_t kLineLength = 300;

std::string clean_line(std::string_view line) {
  while (!line.empty() && line.back() == '\r') {
    line.remove_suffix(1);
  }
  const auto rewritten = line.rfind('\r');
  if (rewritten != std::string_view::npos) {
    line.remove_prefix(rewritten + 1);
  }
  return printable_line(line.substr(0, kLineLength)) + (line.size() > kLineLength ? "..." : "");
}

void append_block(std::string& report, const std::string& title, const std::string& text) {
  if (text.empty()) {
    return;
  }
  report += "  " + title + "\n";
  for (const auto& line : split(text, '\n')) {
    report += "    | " + line + "\n";
  }
}

std::vector<std::string> clean_lines(const std::string& text) {
  std::vector<std::string> lines;
  for (const auto& line : split(text, '\n')) {
    lines.push_back(clean_line(line));
  }
  while (!lines.empty() && trim(lines.back()).empty()) {
    lines.pop_back();
  }
  return lines;
}

// A frame of a C++ backtrace ends with the function's mangled name.
std::string demangled(const std::string& line) {
  const auto start = line.rfind(" _Z");
  if (start == std::string::npos) {
    return line;
  }
  int status = 0;
  char* name = abi::__cxa_demangle(line.c_str() + start + 1, nullptr, nullptr, &status);
  std::string readable = status == 0 ? line.substr(0, start + 1) + name : line;
  std::free(name);
  return readable;
}

// The traceback usually went to stderr as well; once is enough.
bool shown_already(const std::string& traceback, const std::string& tail) {
  const std::string last = last_lines(traceback, 1);
  return last.empty() || tail.find(last) != std::string::npos;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines = split(text, '\n');
  std::erase_if(lines, [](const std::string& line) { return trim(line).empty(); });
  return lines;
}

// "program" or "lockstep train": more words, or a path, would tell something.
bool is_name_of_program(std::string_view text) {
  if (text.starts_with("lockstep ")) {
    text.remove_prefix(std::string_view("lockstep ").size());
  }
  return !text.empty() && text.find_first_of(" /:") == std::string_view::npos;
}

// Whether a program told its error and printed the same, perhaps with its name before a line.
bool says_only(const std::string& tail, const std::string& message) {
  const auto said = lines_of(tail);
  const auto told = lines_of(message);
  if (said.size() > kMessageLines) {
    return false;
  }
  return std::ranges::equal(said, told, [](const std::string& line, const std::string& part) {
    const std::string behind_name = ": " + part;
    return line == part ||
           (line.ends_with(behind_name) &&
            is_name_of_program(std::string_view(line).substr(0, line.size() - behind_name.size())));
  });
}

void append_root_cause(std::string& report, const Failure& root) {
  const bool repeats = says_only(root.stderr_tail, root.message);
  const std::string tail = repeats ? "" : last_lines(root.stderr_tail, kTailLines);
  append_block(report, "message", last_lines(root.message, kMessageLines));
  if (!shown_already(root.traceback, tail)) {
    append_block(report, "traceback", innermost_frames(root.traceback, kTailLines));
  }
  append_block(report, "end of its stderr", tail);
  report += "  log: " +
            (root.log_path.empty() ? "not kept; --log-dir DIR keeps the logs of all workers"
                                   : root.log_path) +
            "\n";
}

// Ended by the very signal that lockstep run sent: not worth a line of its own.
bool obeyed(const Failure& failure) {
  return failure.stopped_by_us && (failure.signal == SIGTERM || failure.signal == SIGKILL);
}

std::string describe_other(const Failure& failure, bool several_nodes) {
  return "  " + describe_worker(failure, several_nodes) + ": " + describe_end(failure) +
         (failure.stopped_by_us ? ", after it was told to stop" : "") + "\n";
}

std::string list(const std::vector<Failure>& failures, const std::string& title,
                 bool several_nodes) {
  std::string lines;
  std::vector<int> stopped;
  std::size_t shown = 0;
  for (const auto& failure : failures) {
    if (obeyed(failure)) {
      stopped.push_back(failure.rank);
    } else if (shown++ < kOtherLines) {
      lines += describe_other(failure, several_nodes);
    }
  }
  if (shown > kOtherLines) {
    lines += "  and " + std::to_string(shown - kOtherLines) + " more\n";
  }
  if (!stopped.empty()) {
    std::sort(stopped.begin(), stopped.end());
    const std::size_t named = std::min<std::size_t>(stopped.size(), 16);
    lines +=
        "  stopped by lockstep run: rank " +
        join_numbers({stopped.begin(), stopped.begin() + static_cast<std::ptrdiff_t>(named)}) +
        (named < stopped.size() ? " and " + std::to_string(stopped.size() - named) + " more" : "") +
        "\n";
  }
  return lines.empty() ? "" : title + lines;
}

}  // namespace

std::string describe_worker(const Failure& failure, bool several_nodes) {
  const std::string place =
      several_nodes ? " on node " + std::to_string(failure.node_rank) + " '" + failure.host + "'"
                    : " on '" + failure.host + "'";
  return "rank " + std::to_string(failure.rank) + " (local rank " +
         std::to_string(failure.local_rank) + ")" + place + ", pid " + std::to_string(failure.pid);
}

std::string describe_end(const Failure& failure) {
  if (failure.signal != 0) {
    return signal_name(failure.signal) + " (signal " + std::to_string(failure.signal) + ")";
  }
  return "exit code " + std::to_string(failure.exit_code);
}

std::string list_failures(const std::vector<Failure>& failures, bool several_nodes) {
  std::vector<Failure> own_fault;
  std::copy_if(
      failures.begin(), failures.end(), std::back_inserter(own_fault),
      [](const Failure& failure) { return !failure.stopped_by_us && !stopped_in_order(failure); });
  return list(own_fault, "lockstep run: workers that failed meanwhile:\n", several_nodes);
}

std::string format_report(const std::vector<Failure>& failures, bool several_nodes) {
  if (failures.empty()) {
    return "";
  }
  const Failure& root = failures.front();
  std::string report =
      list({failures.begin() + 1, failures.end()},
           "lockstep run: workers that ended after the root cause below:\n", several_nodes);
  report += "lockstep run: the job failed; root cause: " + describe_worker(root, several_nodes) +
            ": " + describe_end(root) + "\n";
  append_root_cause(report, root);
  return report;
}

std::string innermost_frames(const std::string& traceback, std::size_t lines) {
  if (!trim(traceback).starts_with("#0 ")) {
    return last_lines(traceback, lines);
  }
  auto kept = clean_lines(traceback);
  kept.resize(std::min(kept.size(), lines));
  for (auto& line : kept) {
    line = demangled(line);
  }
  return join(kept, "\n");
}

std::string last_lines(const std::string& text, std::size_t lines) {
  auto kept = clean_lines(text);
  if (kept.size() > lines) {
    kept.erase(kept.begin(), kept.end() - static_cast<std::ptrdiff_t>(lines));
  }
  return join(kept, "\n");
}

}  // namespace lockstep::launch
