#include "lockstep/launch/command/options.h"

#include <sys/random.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "lockstep/base/error.h"
#include "lockstep/base/host.h"
#include "lockstep/base/process/tree.h"
#include "lockstep/base/text/printable.h"
#include "lockstep/base/text/text.h"
#include "lockstep/cluster/discover_node.h"
#include "lockstep/launch/command/flags.h"
#include "lockstep/launch/protocol/message.h"
#include "lockstep/launch/time_limits.h"

namespace lockstep::launch {
namespace {

constexpr int kStaticPort = 29500;
constexpr int kC10dPort = 29400;

int parse_number(const FlagValues& flags, std::string_view name, int low, int high, int fallback) {
  const auto text = flags.get(name);
  if (!text) {
    return fallback;
  }
  const auto number = parse_int(*text);
  if (!number || *number < low || *number > high) {
    throw UsageError("--" + std::string(name) + " is '" + *text + "', expected a number from " +
                     std::to_string(low) + " to " + std::to_string(high));
  }
  return static_cast<int>(*number);
}

std::chrono::milliseconds parse_seconds(const std::string& text, const std::string& what) {
  char* end = nullptr;
  const double seconds = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0' || !std::isfinite(seconds) || seconds < 0 || seconds > 1e7) {
    throw UsageError(what + " is '" + text + "', expected a number of seconds");
  }
  return std::chrono::milliseconds(static_cast<std::int64_t>(std::ceil(seconds * 1000)));
}

std::chrono::milliseconds parse_node_timeout(const FlagValues& flags) {
  const std::string text = flags.get("node-timeout").value_or("15");
  const auto timeout = parse_seconds(text, "--node-timeout");
  if (timeout < kLeastNodeTimeout || timeout > kMostNodeTimeout) {
    throw UsageError("--node-timeout is '" + text +
                     "', expected 2 to 86400 seconds (nodes send a heartbeat every " +
                     to_text(kHeartbeatInterval) + ")");
  }
  return timeout;
}

// A random (version 4) UUID, the run id torchrun gives to a job on one node.
std::string random_uuid() {
  unsigned char bytes[16] = {};
  if (::getrandom(bytes, sizeof bytes, 0) != static_cast<ssize_t>(sizeof bytes)) {
    throw IoError("making a run id: no random numbers from the kernel");
  }
  bytes[6] = static_cast<unsigned char>((bytes[6] & 0x0F) | 0x40);
  bytes[8] = static_cast<unsigned char>((bytes[8] & 0x3F) | 0x80);
  std::string text;
  for (std::size_t i = 0; i < sizeof bytes; ++i) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", bytes[i]);
    text.append(i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "").append(digits);
  }
  return text;
}

int parse_node_count(const FlagValues& flags) {
  const std::string text = flags.get("nnodes").value_or("1");
  const auto parts = split(text, ':');
  const auto low = parse_int(parts.front());
  const auto high = parse_int(parts.back());
  if (!low || !high || parts.size() > 2 || *low < 1 || *high > kMostNodes || *low > *high) {
    throw UsageError("--nnodes is '" + text + "', expected a number from 1 to " +
                     std::to_string(kMostNodes));
  }
  if (*low != *high) {
    throw UsageError(
        "--nnodes is '" + text +
        "': a range of nodes (MIN:MAX) is not yet supported by lockstep run; give one number");
  }
  return static_cast<int>(*low);
}

std::vector<int> parse_signals(const std::string& text) {
  std::vector<int> signals;
  for (const auto& name : split(text, ',')) {
    const int signal = signal_number(std::string(trim(name)));
    if (signal == 0 || signal == SIGKILL || signal == SIGSTOP || signal == SIGCHLD) {
      throw UsageError(
          "--signals-to-handle is '" + text + "': '" + name + "' " +
          "is no signal that can be passed on, expected names such as SIGTERM,SIGUSR1");
    }
    signals.push_back(signal);
  }
  return signals;
}

std::set<int> parse_codes(const FlagValues& flags) {
  std::set<int> codes;
  const std::string text = flags.get("no-restart-on").value_or("");
  for (const auto& part : text.empty() ? std::vector<std::string>{} : split(text, ',')) {
    const auto code = parse_int(trim(part));
    if (!code || *code < 1 || *code > 255) {
      throw UsageError("--no-restart-on is '" + text +
                       "', expected exit codes from 1 to 255, separated by commas, such as 2,64");
    }
    codes.insert(static_cast<int>(*code));
  }
  return codes;
}

std::set<int> parse_rank_filter(const FlagValues& flags) {
  std::set<int> ranks;
  const std::string text = flags.get("local-ranks-filter").value_or("");
  for (const auto& part : text.empty() ? std::vector<std::string>{} : split(text, ',')) {
    const auto rank = parse_int(trim(part));
    if (!rank || *rank < 0 || *rank > 1'000'000) {
      throw UsageError("--local-ranks-filter is '" + text +
                       "', expected local ranks separated by commas, such as 0,1");
    }
    ranks.insert(static_cast<int>(*rank));
  }
  return ranks;
}

LogOptions parse_logs(const FlagValues& flags, const Environment& environment) {
  LogOptions logs;
  logs.folder = flags.get("log-dir").value_or("");
  logs.redirects = StreamChoice::parse(flags.get("redirects").value_or("0"), "--redirects");
  logs.tee = StreamChoice::parse(flags.get("tee").value_or("0"), "--tee");
  logs.shown_ranks = parse_rank_filter(flags);
  logs.prefix_template = flags.get("log-line-prefix-template").value_or("");
  if (logs.prefix_template.empty()) {
    logs.prefix_template = environment.get("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE").value_or("");
  }
  return logs;
}

// A flag that names a worker that is not there is a slip, but only on one node: nodes with
// different numbers of workers may be given the same flags.
void require_local_ranks(const FlagValues& flags, const RunOptions& options) {
  const auto require = [&](std::string_view name, int rank) {
    if (rank >= options.workers && options.nodes.count == 1) {
      throw UsageError("--" + std::string(name) + " is '" + *flags.get(name) +
                       "', expected local ranks from 0 to " + std::to_string(options.workers - 1) +
                       " (--nproc-per-node is " + std::to_string(options.workers) + ")");
    }
  };
  const LogOptions& logs = options.logs;
  require("redirects", logs.redirects.highest_rank());
  require("tee", logs.tee.highest_rank());
  require("local-ranks-filter", logs.shown_ranks.empty() ? -1 : *logs.shown_ranks.rbegin());
}

// Other nodes show these names, and compare them.
void require_printable(const FlagValues& flags, std::string_view name) {
  const std::string text = flags.get(name).value_or("");
  if (printable_line(text) != text) {
    throw UsageError("--" + std::string(name) + " is '" + printable_line(text) +
                     "' with control characters in it, expected none");
  }
}

bool is_c10d(const FlagValues& flags) {
  const std::string backend = flags.get("rdzv-backend").value_or("static");
  if (backend != "static" && backend != "c10d") {
    throw UsageError(
        "--rdzv-backend is '" + backend +
        "': this backend of torchrun is not yet supported by lockstep run; use static or c10d");
  }
  return backend == "c10d";
}

// torchrun users ask for any free port with "localhost:0".
Endpoint parse_meeting_point(const std::string& text, int default_port) {
  if (text.ends_with(":0")) {
    return {parse_endpoint(text.substr(0, text.size() - 2), "--rdzv-endpoint", 1).host, 0};
  }
  return parse_endpoint(text, "--rdzv-endpoint", default_port);
}

NodeOptions parse_one_node(const FlagValues& flags) {
  NodeOptions nodes;
  nodes.rank = 0;
  parse_number(flags, "node-rank", 0, 0, 0);
  nodes.endpoint.port = parse_number(flags, "master-port", 0, 65535, 0);
  const auto endpoint = flags.get("rdzv-endpoint");
  if (endpoint && !endpoint->empty() && !flags.has("standalone")) {
    nodes.endpoint.port = parse_meeting_point(*endpoint, 0).port;
  }
  return nodes;
}

NodeOptions parse_several_nodes(const FlagValues& flags, int count) {
  NodeOptions nodes;
  nodes.count = count;
  nodes.first_to_listen_leads = is_c10d(flags);
  if (flags.has("standalone")) {
    throw UsageError("--standalone is for one node, but --nnodes is " + std::to_string(count));
  }
  if (flags.has("node-rank") || !nodes.first_to_listen_leads) {
    nodes.rank = parse_number(flags, "node-rank", 0, count - 1, 0);
  }
  const auto endpoint = flags.get("rdzv-endpoint");
  if (endpoint && !endpoint->empty()) {
    nodes.endpoint =
        parse_meeting_point(*endpoint, nodes.first_to_listen_leads ? kC10dPort : kStaticPort);
  } else if (nodes.first_to_listen_leads) {
    throw UsageError("--rdzv-backend c10d with --nnodes " + std::to_string(count) +
                     " needs --rdzv-endpoint HOST[:PORT], the same on all nodes");
  } else {
    // torchrun writes an IPv6 address in brackets here.
    const std::string address = flags.get("master-addr").value_or("127.0.0.1");
    nodes.endpoint = parse_endpoint(
        address.find(':') == std::string::npos || address[0] == '[' ? address : "[" + address + "]",
        "--master-addr", kStaticPort);
    nodes.endpoint.port = parse_number(flags, "master-port", 1, 65535, kStaticPort);
  }
  if (nodes.endpoint.port == 0) {
    throw UsageError("--rdzv-endpoint has port 0, but " + std::to_string(count) +
                     " nodes must agree on a port; give one");
  }
  return nodes;
}

// If the user gives one flag about nodes, only flags decide about them.
std::optional<cluster::NodePlace> discover_place(const FlagValues& flags, const Environment& env) {
  const auto names = {"nnodes",     "node-rank",    "master-addr",  "master-port",
                      "standalone", "rdzv-backend", "rdzv-endpoint"};
  const bool given =
      std::any_of(names.begin(), names.end(), [&](auto* name) { return flags.has(name); });
  return given ? std::nullopt : cluster::discover_node(env);
}

void take_place(const cluster::NodePlace& place, RunOptions& options) {
  if (place.count > kMostNodes) {
    throw UsageError(place.found_by + " has " + std::to_string(place.count) +
                     " nodes, expected at most " + std::to_string(kMostNodes));
  }
  options.nodes.count = place.count;
  options.nodes.rank = place.rank;
  options.nodes.endpoint = place.master;
  options.nodes.found_by = place.found_by;
  options.run_id = place.job.empty() ? "none" : place.job;
}

void parse_nodes(const FlagValues& flags, const Environment& environment, RunOptions& options) {
  const int count = parse_node_count(flags);
  is_c10d(flags);
  options.nodes = count == 1 ? parse_one_node(flags) : parse_several_nodes(flags, count);
  options.run_id = options.nodes.endpoint.port == 0 ? random_uuid() : "none";
  if (const auto place = discover_place(flags, environment)) {
    take_place(*place, options);
  }
  options.run_id = flags.get("rdzv-id").value_or(options.run_id);
  options.nodes.name = flags.get("local-addr").value_or(host_name());
  options.nodes.join_timeout =
      parse_seconds(flags.get("join-timeout").value_or("900"), "--join-timeout");
  options.nodes.node_timeout = parse_node_timeout(flags);
}

}  // namespace

RunOptions parse_run_options(const std::vector<std::string>& arguments,
                             const Environment& environment, const Machine& machine) {
  const FlagValues flags = scan_flags(arguments, environment);
  RunOptions options;
  options.help = flags.has("help");
  if (options.help) {
    return options;
  }
  parse_nodes(flags, environment, options);
  for (const char* name : {"rdzv-id", "local-addr", "role"}) {
    require_printable(flags, name);
  }
  if (const auto ids = flags.get("gpu-ids")) {
    options.gpu_ids = parse_gpu_ids(*ids, machine);
  }
  const int by_gpus = std::max(1, static_cast<int>(options.gpu_ids.size()));
  options.workers =
      parse_worker_count(flags.get("nproc-per-node").value_or(std::to_string(by_gpus)), machine);

  options.logs = parse_logs(flags, environment);
  require_local_ranks(flags, options);
  options.role = flags.get("role").value_or("default");
  options.max_restarts = parse_number(flags, "max-restarts", 0, 1'000'000, 0);
  options.final_codes = parse_codes(flags);
  parse_seconds(flags.get("monitor-interval").value_or("0.1"), "--monitor-interval");
  options.shutdown_timeout =
      parse_seconds(flags.get("shutdown-timeout")
                        .value_or(environment.get("TORCH_ELASTIC_SHUTDOWN_TIMEOUT").value_or("30")),
                    "--shutdown-timeout");
  options.signal_names = flags.get("signals-to-handle").value_or("SIGTERM,SIGINT,SIGHUP,SIGQUIT");
  options.signals = parse_signals(options.signal_names);

  options.module = flags.has("module");
  options.no_python = flags.has("no-python");
  options.command = flags.command;
  if (options.command.empty()) {
    throw UsageError("no program given\nHINT: lockstep run --nproc-per-node 2 PROGRAM ARGS...");
  }
  return options;
}

}  // namespace lockstep::launch
