#include "lockstep/launch/message.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"

namespace lockstep::launch {
namespace {

using Json = nlohmann::json;

constexpr int kMostWorkersOfANode = 1 << 16;
constexpr std::size_t kMostFailures = 16;  // The report shows fewer.

// The end of a text says more than its beginning.
std::string cut(const std::string& text, std::size_t bytes) {
  return text.size() <= bytes ? text : text.substr(text.size() - bytes);
}

int number_at(const Json& json, const char* key, int low, int high) {
  const Json& value = json.at(key);
  if (!value.is_number_integer() || value.get<std::int64_t>() < low ||
      value.get<std::int64_t>() > high) {
    throw PeerError(std::string("message: '") + key + "' is out of range");
  }
  return value.get<int>();
}

std::string must_have_text(const Json& json, const char* key) {
  return json.at(key).get<std::string>();
}

Json write_node(const NodeInfo& node) {
  return {{"host", cut(node.host, 100)}, {"workers", node.workers}, {"role", cut(node.role, 64)}};
}

NodeInfo read_node(const Json& json) {
  return {must_have_text(json, "host"), number_at(json, "workers", 1, kMostWorkersOfANode),
          must_have_text(json, "role")};
}

Json write_failure(const Failure& failure) {
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
  failure.host = must_have_text(json, "host");
  failure.pid = number_at(json, "pid", 0, 1 << 30);
  failure.exit_code = number_at(json, "exit_code", 0, 255);
  failure.signal = number_at(json, "signal", 0, 127);
  failure.stopped_by_us = json.at("stopped_by_us").get<bool>();
  failure.message = must_have_text(json, "message");
  failure.traceback = must_have_text(json, "traceback");
  failure.stderr_tail = must_have_text(json, "stderr_tail");
  failure.log_path = must_have_text(json, "log_path");
  return failure;
}

Json write_plan(const JobPlan& plan) {
  Json nodes = Json::array();
  for (const auto& node : plan.nodes) {
    nodes.push_back(write_node(node));
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
  plan.run_id = must_have_text(json, "run_id");
  for (const auto& node : json.at("nodes")) {
    plan.nodes.push_back(read_node(node));
  }
  if (plan.nodes.empty() || plan.nodes.size() > static_cast<std::size_t>(kMostNodes)) {
    throw PeerError("message: a plan for " + std::to_string(plan.nodes.size()) + " nodes");
  }
  plan.master_addr = must_have_text(json, "master_addr");
  plan.master_port = number_at(json, "master_port", 1, 65535);
  plan.attempt = number_at(json, "attempt", 0, 1 << 30);
  plan.max_restarts = number_at(json, "max_restarts", 0, 1 << 30);
  return plan;
}

struct Writer {
  Json operator()(const Join& m) const {
    return {{"type", "join"},           {"run_id", cut(m.run_id, 1024)}, {"nodes", m.nodes},
            {"node_rank", m.node_rank}, {"node", write_node(m.node)},    {"pid", m.pid}};
  }
  Json operator()(const Refused& m) const {
    return {{"type", "refused"}, {"reason", cut(m.reason, 4096)}};
  }
  Json operator()(const Start& m) const {
    return {{"type", "start"},
            {"plan", write_plan(m.plan)},
            {"node_rank", m.node_rank},
            {"why", cut(m.why, 4096)}};
  }
  Json operator()(const Heartbeat&) const { return {{"type", "heartbeat"}}; }
  Json operator()(const Failed& m) const {
    return {{"type", "failed"}, {"attempt", m.attempt}, {"failure", write_failure(m.failure)}};
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
      failures.push_back(write_failure(failure));
    }
    return {{"type", "stopped"}, {"attempt", m.attempt}, {"failures", failures}};
  }
  Json operator()(const Done& m) const { return {{"type", "done"}, {"attempt", m.attempt}}; }
  Json operator()(const Interrupted& m) const {
    return {{"type", "interrupted"}, {"signal", m.signal}};
  }
  Json operator()(const End& m) const {
    return {{"type", "end"}, {"exit_code", m.exit_code}, {"text", cut(m.text, 16384)}};
  }
};

Join read_join(const Json& json) {
  Join join;
  join.run_id = must_have_text(json, "run_id");
  join.nodes = number_at(json, "nodes", 1, kMostNodes);
  join.node_rank = number_at(json, "node_rank", -1, kMostNodes);
  join.node = read_node(json.at("node"));
  join.pid = number_at(json, "pid", 0, 1 << 30);
  return join;
}

Start read_start(const Json& json) {
  Start start{read_plan(json.at("plan")), 0, must_have_text(json, "why")};
  start.node_rank = number_at(json, "node_rank", 0, static_cast<int>(start.plan.nodes.size()) - 1);
  return start;
}

Stopped read_stopped(const Json& json) {
  Stopped stopped{number_at(json, "attempt", 0, 1 << 30), {}};
  for (const auto& failure : json.at("failures")) {
    stopped.failures.push_back(read_failure(failure));
  }
  return stopped;
}

Message read_message(const Json& json) {
  const std::string type = must_have_text(json, "type");
  const auto attempt = [&] { return number_at(json, "attempt", 0, 1 << 30); };
  const auto signal = [&] { return number_at(json, "signal", 1, 127); };
  if (type == "join") {
    return read_join(json);
  }
  if (type == "refused") {
    return Refused{must_have_text(json, "reason")};
  }
  if (type == "start") {
    return read_start(json);
  }
  if (type == "heartbeat") {
    return Heartbeat{};
  }
  if (type == "failed") {
    return Failed{attempt(), read_failure(json.at("failure"))};
  }
  if (type == "stop") {
    return Stop{attempt(), signal()};
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
    return End{number_at(json, "exit_code", 0, 255), must_have_text(json, "text")};
  }
  throw PeerError("message: there is no type '" + cut(type, 64) + "'");
}

}  // namespace

std::string encode(const Message& message) {
  // What workers write need not be UTF-8.
  std::string text =
      std::visit(Writer{}, message).dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > kMostMessageBytes) {
    throw PeerError("message: " + std::to_string(text.size()) +
                    " bytes are more than nodes may send");
  }
  return text;
}

Message decode(std::string_view json) {
  try {
    return read_message(Json::parse(json));
  } catch (const Json::exception& error) {
    throw PeerError(std::string("message: ") + error.what());
  }
}

}  // namespace lockstep::launch
