#include "lockstep/launch/protocol/message.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lockstep/base/text/printable.h"
#include "lockstep/launch/protocol/frame.h"

namespace lockstep::launch {
namespace {

using Json = nlohmann::json;

constexpr int kMostWorkersOfANode = 1 << 16;
constexpr std::size_t kMostFailures = 16;  // The report shows fewer.

// The end of a text says more than its beginning.
std::string end_of(const std::string& text, std::size_t bytes) {
  return text.size() <= bytes ? text : text.substr(text.size() - bytes);
}

// Characters that JSON escapes take up to six bytes: where the usual lengths do not fit into a
// message, all texts are cut to a fraction of them.
struct Cutter {
  std::size_t share = 1;

  [[nodiscard]] std::string operator()(const std::string& text, std::size_t bytes) const {
    return end_of(text, bytes / share);
  }
};

int number_at(const Json& json, const char* key, int low, int high) {
  const Json& value = json.at(key);
  if (!value.is_number_integer() || value.get<std::int64_t>() < low ||
      value.get<std::int64_t>() > high) {
    throw ProtocolError(std::string("message: '") + key + "' is out of range");
  }
  return value.get<int>();
}

// One line: a name, an address, a path.
std::string name_at(const Json& json, const char* key) {
  return printable_line(json.at(key).get<std::string>());
}

std::string text_at(const Json& json, const char* key) {
  return printable_text(json.at(key).get<std::string>());
}

Json write_node(const NodeInfo& node, const Cutter& cut) {
  return {{"host", cut(node.host, 100)}, {"workers", node.workers}, {"role", cut(node.role, 64)}};
}

NodeInfo read_node(const Json& json) {
  return {name_at(json, "host"), number_at(json, "workers", 1, kMostWorkersOfANode),
          name_at(json, "role")};
}

Json write_failure(const Failure& failure, const Cutter& cut) {
  return {{"rank", failure.rank},
          {"local_rank", failure.local_rank},
          {"node_rank", failure.node_rank},
          {"host", cut(failure.host, 255)},
          {"pid", failure.pid},
          {"exit_code", failure.exit_code},
          {"signal", failure.signal},
          {"stopped_by_us", failure.stopped_by_us},
          {"message", cut(failure.message, 2048)},
          {"traceback", cut(failure.traceback, 4096)},
          {"stderr_tail", cut(failure.stderr_tail, 4096)},
          {"log_path", cut(failure.log_path, 1024)}};
}

Failure read_failure(const Json& json) {
  Failure failure;
  failure.rank = number_at(json, "rank", 0, kMostWorkersOfANode * kMostNodes - 1);
  failure.local_rank = number_at(json, "local_rank", 0, kMostWorkersOfANode);
  failure.node_rank = number_at(json, "node_rank", 0, kMostNodes);
  failure.host = name_at(json, "host");
  failure.pid = number_at(json, "pid", 0, 1 << 30);
  failure.exit_code = number_at(json, "exit_code", 0, 255);
  failure.signal = number_at(json, "signal", 0, 127);
  failure.stopped_by_us = json.at("stopped_by_us").get<bool>();
  failure.message = text_at(json, "message");
  failure.traceback = text_at(json, "traceback");
  failure.stderr_tail = text_at(json, "stderr_tail");
  failure.log_path = name_at(json, "log_path");
  return failure;
}

Json write_plan(const JobPlan& plan, const Cutter& cut) {
  Json nodes = Json::array();
  for (const auto& node : plan.nodes) {
    nodes.push_back(write_node(node, cut));
  }
  return {{"run_id", cut(plan.run_id, 1024)},
          {"nodes", nodes},
          {"master_addr", cut(plan.master_addr, 255)},
          {"master_port", plan.master_port},
          {"attempt", plan.attempt},
          {"max_restarts", plan.max_restarts}};
}

JobPlan read_plan(const Json& json) {
  JobPlan plan;
  plan.run_id = name_at(json, "run_id");
  for (const auto& node : json.at("nodes")) {
    plan.nodes.push_back(read_node(node));
  }
  if (plan.nodes.empty() || plan.nodes.size() > static_cast<std::size_t>(kMostNodes)) {
    throw ProtocolError("message: a plan for " + std::to_string(plan.nodes.size()) + " nodes");
  }
  plan.master_addr = name_at(json, "master_addr");
  plan.master_port = number_at(json, "master_port", 1, 65535);
  plan.attempt = number_at(json, "attempt", 0, 1 << 30);
  plan.max_restarts = number_at(json, "max_restarts", 0, 1 << 30);
  return plan;
}

struct Writer {
  Cutter cut;

  Json operator()(const Join& m) const {
    return {{"type", "join"},           {"run_id", cut(m.run_id, 1024)},   {"nodes", m.nodes},
            {"node_rank", m.node_rank}, {"node", write_node(m.node, cut)}, {"pid", m.pid}};
  }
  Json operator()(const Refused& m) const {
    return {{"type", "refused"}, {"reason", cut(m.reason, 4096)}, {"ending", m.ending}};
  }
  Json operator()(const Start& m) const {
    return {{"type", "start"},
            {"plan", write_plan(m.plan, cut)},
            {"node_rank", m.node_rank},
            {"why", cut(m.why, 4096)}};
  }
  Json operator()(const Heartbeat&) const { return {{"type", "heartbeat"}}; }
  Json operator()(const Noticed& m) const { return {{"type", "noticed"}, {"attempt", m.attempt}}; }
  Json operator()(const Failed& m) const {
    return {{"type", "failed"}, {"attempt", m.attempt}, {"failure", write_failure(m.failure, cut)}};
  }
  Json operator()(const Unable& m) const {
    return {{"type", "unable"}, {"attempt", m.attempt}, {"why", cut(m.why, 4096)}};
  }
  Json operator()(const Stop& m) const {
    return {{"type", "stop"}, {"attempt", m.attempt}, {"signal", m.signal}};
  }
  Json operator()(const Stopped& m) const {
    Json failures = Json::array();
    for (std::size_t i = 0; i < std::min(m.failures.size(), kMostFailures); ++i) {
      Failure failure = m.failures[i];
      if (i > 0) {  // The report tells the whole story of one failure per node at most.
        failure.message = failure.traceback = failure.stderr_tail = failure.log_path = {};
      }
      failures.push_back(write_failure(failure, cut));
    }
    return {{"type", "stopped"},
            {"attempt", m.attempt},
            {"failures", failures},
            {"stuck", cut(m.stuck, 1024)}};
  }
  Json operator()(const Done& m) const { return {{"type", "done"}, {"attempt", m.attempt}}; }
  Json operator()(const Interrupted& m) const {
    return {{"type", "interrupted"}, {"signal", m.signal}};
  }
  Json operator()(const End& m) const {
    return {{"type", "end"},
            {"exit_code", m.exit_code},
            {"text", cut(m.text, 16384)},
            {"root_cause", m.root_cause ? write_failure(*m.root_cause, cut) : Json()}};
  }
};

Join read_join(const Json& json) {
  Join join;
  join.run_id = name_at(json, "run_id");
  join.nodes = number_at(json, "nodes", 1, kMostNodes);
  join.node_rank = number_at(json, "node_rank", -1, kMostNodes);
  join.node = read_node(json.at("node"));
  join.pid = number_at(json, "pid", 0, 1 << 30);
  return join;
}

Start read_start(const Json& json) {
  Start start{read_plan(json.at("plan")), 0, text_at(json, "why")};
  start.node_rank = number_at(json, "node_rank", 0, static_cast<int>(start.plan.nodes.size()) - 1);
  return start;
}

Stopped read_stopped(const Json& json) {
  Stopped stopped{number_at(json, "attempt", 0, 1 << 30), {}, text_at(json, "stuck")};
  for (const auto& failure : json.at("failures")) {
    stopped.failures.push_back(read_failure(failure));
  }
  return stopped;
}

End read_end(const Json& json) {
  End end{number_at(json, "exit_code", 0, 255), text_at(json, "text"), std::nullopt};
  if (const Json& root = json.at("root_cause"); !root.is_null()) {
    end.root_cause = read_failure(root);
  }
  return end;
}

Message read_message(const Json& json) {
  const std::string type = name_at(json, "type");
  const auto attempt = [&] { return number_at(json, "attempt", 0, 1 << 30); };
  const auto signal = [&] { return number_at(json, "signal", 1, 127); };
  if (type == "join") {
    return read_join(json);
  }
  if (type == "refused") {
    return Refused{text_at(json, "reason"), json.at("ending").get<bool>()};
  }
  if (type == "start") {
    return read_start(json);
  }
  if (type == "heartbeat") {
    return Heartbeat{};
  }
  if (type == "noticed") {
    return Noticed{attempt()};
  }
  if (type == "failed") {
    return Failed{attempt(), read_failure(json.at("failure"))};
  }
  if (type == "unable") {
    return Unable{attempt(), text_at(json, "why")};
  }
  if (type == "stop") {
    return Stop{attempt(), number_at(json, "signal", 0, 127)};
  }
  if (type == "stopped") {
    return read_stopped(json);
  }
  if (type == "done") {
    return Done{attempt()};
  }
  if (type == "interrupted") {
    return Interrupted{signal()};
  }
  if (type == "end") {
    return read_end(json);
  }
  throw ProtocolError("message: there is no type '" + end_of(type, 64) + "'");
}

}  // namespace

std::string encode(const Message& message) {
  for (Cutter cut;; cut.share *= 2) {
    // What workers write need not be UTF-8.
    std::string text =
        std::visit(Writer{cut}, message).dump(-1, ' ', false, Json::error_handler_t::replace);
    if (text.size() <= kMostMessageBytes) {
      return text;
    }
    if (cut.share > kMostMessageBytes) {
      throw ProtocolError("message: " + std::to_string(text.size()) +
                          " bytes are more than nodes may send");
    }
  }
}

Message decode(std::string_view json) {
  try {
    return read_message(Json::parse(json));
  } catch (const Json::exception& error) {
    throw ProtocolError(std::string("message: ") + error.what());
  }
}

}  // namespace lockstep::launch
