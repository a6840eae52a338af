#include "lockstep/cluster/host_list.h"

#include "lockstep/base/error.h"
#include "lockstep/base/fd.h"
#include "lockstep/base/text/text.h"

namespace lockstep::cluster {
namespace {

constexpr std::size_t kMostHosts = 100'000;  // A list longer than any cluster is a mistake.

[[noreturn]] void reject(std::string_view list, const std::string& why) {
  throw UsageError("reading the Slurm list '" + std::string(list) + "': " + why);
}

// Splits at commas that are outside brackets.
std::vector<std::string> split_outside_brackets(std::string_view list) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (const char c : list) {
    depth += c == '[' ? 1 : c == ']' ? -1 : 0;
    if (depth < 0 || depth > 1) {
      reject(list, "its brackets do not match");
    }
    if (c == ',' && depth == 0) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  if (depth != 0) {
    reject(list, "its brackets do not match");
  }
  return parts;
}

// "01-03" as 01, 02, 03: numbers keep the width they were written with.
std::vector<std::string> expand_range(std::string_view range, std::string_view list) {
  const auto dash = range.find('-');
  const auto first_text = range.substr(0, dash);
  const auto last_text = dash == std::string_view::npos ? first_text : range.substr(dash + 1);
  const auto first = parse_int(first_text);
  const auto last = parse_int(last_text);
  if (!first || !last || *first < 0 || *last < *first ||
      *last - *first >= static_cast<std::int64_t>(kMostHosts)) {
    reject(list, "'" + std::string(range) + "' is not a range of numbers");
  }
  std::vector<std::string> numbers;
  for (auto n = *first; n <= *last; ++n) {
    std::string text = std::to_string(n);
    if (text.size() < first_text.size()) {
      text.insert(0, first_text.size() - text.size(), '0');
    }
    numbers.push_back(std::move(text));
  }
  return numbers;
}

void expand_into(std::string_view part, std::string_view list, std::vector<std::string>& hosts) {
  const auto open = part.find('[');
  if (hosts.size() > kMostHosts) {
    reject(list, "it names more than " + std::to_string(kMostHosts) + " hosts");
  }
  if (open == std::string_view::npos) {
    hosts.emplace_back(part);
    return;
  }
  const auto close = part.find(']', open);
  const std::string before(part.substr(0, open));
  const std::string after(part.substr(close + 1));
  for (const auto& range : split(part.substr(open + 1, close - open - 1), ',')) {
    for (const auto& number : expand_range(range, list)) {
      // What follows may hold brackets again: rack[1-2]n[1-4].
      expand_into(before + number + after, list, hosts);
    }
  }
}

}  // namespace

std::vector<std::string> expand_slurm_hosts(std::string_view list) {
  std::vector<std::string> hosts;
  for (const auto& part : split_outside_brackets(list)) {
    if (!part.empty()) {
      expand_into(part, list, hosts);
    }
  }
  return hosts;
}

std::vector<int> expand_slurm_tasks(std::string_view list) {
  std::vector<int> tasks;
  for (const auto& part : split(list, ',')) {
    const auto open = part.find("(x");
    const auto count = parse_int(std::string_view(part).substr(0, open));
    std::optional<std::int64_t> repeat = 1;
    if (open != std::string::npos) {
      repeat = part.back() == ')' ? parse_int(part.substr(open + 2, part.size() - open - 3))
                                  : std::nullopt;
    }
    if (!count || !repeat || *count < 0 || *repeat < 1 ||
        *repeat > static_cast<std::int64_t>(kMostHosts)) {
      reject(list, "'" + part + "' is not a number of tasks");
    }
    tasks.insert(tasks.end(), static_cast<std::size_t>(*repeat), static_cast<int>(*count));
  }
  return tasks;
}

std::vector<std::string> read_node_file(const std::string& path) {
  std::vector<std::string> hosts;
  for (const auto& line : split(read_file(path), '\n')) {
    const auto host = trim(line);
    if (!host.empty()) {
      hosts.emplace_back(host);
    }
  }
  return hosts;
}

std::vector<std::string> pbsdsh_slots(const Environment& env, const std::string& otherwise) {
  std::string why = "PBS_NODEFILE is not set";
  try {
    if (const auto file = env.get("PBS_NODEFILE")) {
      return read_node_file(*file);
    }
  } catch (const IoError& error) {
    why = error.what();
  }
  throw UsageError("on node " + env.get("PBS_NODENUM").value_or("?") + " of PBS job " +
                   env.get("PBS_JOBID").value_or("?") + ": " + why +
                   "; pbsdsh does not pass this list of hosts on, and PBS keeps it on the first "
                   "node\nHINT: pass on a copy that all nodes see, as "
                   "docs/guides/clusters/job.pbs does, or " +
                   otherwise);
}

}  // namespace lockstep::cluster
