// What one `lockstep run` was asked to do, checked and complete.
#pragma once

#include <chrono>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "lockstep/base/environment.h"
#include "lockstep/base/sockets/socket.h"
#include "lockstep/launch/command/machine.h"
#include "lockstep/launch/command/stream_choice.h"

namespace lockstep::launch {

struct LogOptions {
  std::string folder;  // --log-dir; empty: logs are not kept.
  StreamChoice redirects;
  StreamChoice tee;
  std::set<int> shown_ranks;    // --local-ranks-filter; empty: all.
  std::string prefix_template;  // Empty: torchrun's default.
  // While it runs, a worker says where logs are kept: see log_link() in log_layout.h.
  bool named_by_worker = false;
};

struct NodeOptions {
  int count = 1;
  std::optional<int> rank;  // Nothing: the order of host names decides (c10d).
  // One node: loopback, and the store's port (0: any). Several: where the launchers meet.
  Endpoint endpoint{"127.0.0.1", 0};
  // True (c10d): the node that can listen at the endpoint leads. False (static): node rank 0 leads.
  bool first_to_listen_leads = false;
  std::chrono::milliseconds join_timeout{std::chrono::minutes(15)};
  std::chrono::milliseconds node_timeout{std::chrono::seconds(15)};  // Silent so long: lost.
  std::string name;      // What other nodes call this one.
  std::string found_by;  // The scheduler that told all this; empty: flags did, or nobody.
};

struct RunOptions {
  int workers = 1;  // On this node.
  NodeOptions nodes;
  LogOptions logs;
  std::string run_id;
  std::string role = "default";
  int max_restarts = 0;
  std::set<int> final_codes;  // --no-restart-on.
  std::chrono::milliseconds shutdown_timeout{std::chrono::seconds(30)};
  std::vector<int> signals;
  std::string signal_names;  // The same, as given.
  std::vector<int> gpu_ids;  // Empty: CUDA_VISIBLE_DEVICES is left alone.
  bool help = false;

  bool module = false;
  bool no_python = false;
  std::vector<std::string> command;  // The program and its arguments.
};

// Flags come first. If no flag is about nodes, the scheduler's variables decide: discover_node().
// Throws UsageError that names the wrong flag or variable.
RunOptions parse_run_options(const std::vector<std::string>& arguments,
                             const Environment& environment, const Machine& machine);

}  // namespace lockstep::launch
