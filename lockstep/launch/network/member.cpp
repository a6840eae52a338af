#include "lockstep/launch/network/member.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/process/tree.h"
#include "lockstep/base/sockets/socket.h"
#include "lockstep/launch/network/leader.h"
#include "lockstep/launch/time_limits.h"

namespace lockstep::launch {

Member::Member(const Context& context, EventLoop& loop, std::function<void(const std::string&)> say)
    : context_(context),
      loop_(loop),
      say_(std::move(say)),
      join_deadline_(Deadline::in(context.options.nodes.join_timeout)),
      late_(Deadline::in(
          std::min<std::chrono::milliseconds>(kLateNodes, context.options.nodes.join_timeout / 2))),
      next_try_(Deadline::in({})),
      leader_("the leading node at " + to_text(context.options.nodes.endpoint)) {}

Member::~Member() {
  if (channel_) {
    loop_.forget(channel_->fd());
  }
}

// The leader may start later than this node, and the leader of the job before may still be there.
// Trying again does no harm until a leader has started an attempt with this node.
void Member::try_to_join() {
  if (!next_try_.passed()) {
    return;
  }
  // Each connect may succeed, and still no leader take us in.
  if (join_deadline_.passed() && !why_not_joined_.empty()) {
    own_end_ = End{1,
                   "lockstep run: " + leader_ + " did not come within " +
                       to_text(join_deadline_.total()) + " (" + why_not_joined_ + ")\n",
                   std::nullopt};
    end_when_stopped();
    return;
  }
  try {
    channel_.emplace(connect_to(context_.options.nodes.endpoint, Deadline::in(kConnectAttempt)));
    heartbeats_.add(channel_->outbox());
    channel_->send(introduce(context_));
    watch();
  } catch (const PeerError& error) {
    why_not_joined_ = error.what();
    if (say_ && late_.passed()) {
      std::exchange(say_, nullptr)("lockstep run: " + leader_ + " has not come yet (" +
                                   why_not_joined_ + "); trying for up to " +
                                   to_text(join_deadline_.total()) + " in all\n");
    }
  }
}

// Closes the connection; the next try follows after a pause.
void Member::leave(const std::string& why) {
  loop_.forget(channel_->fd());
  channel_.reset();
  why_not_joined_ = why;
  next_try_ = Deadline::in(kBetweenTries);
}

void Member::watch() {
  const short events = static_cast<short>(POLLIN | (channel_->pending() ? POLLOUT : 0));
  loop_.watch(channel_->fd(), events, [this] { serve(); });
}

void Member::serve() {
  try {
    channel_->flush();
    for (const auto& message : channel_->receive()) {
      if (const auto* refused = std::get_if<Refused>(&message); refused && refused->ending) {
        leave(refused->reason);
        return;
      }
      obey(message);
    }
    watch();
  } catch (const ProtocolError& error) {
    reject_leader(error.what());
  } catch (const PeerError& error) {
    lose_leader(error.what());
  }
}

void Member::obey(const Message& message) {
  if (const auto* refused = std::get_if<Refused>(&message)) {
    own_end_ =
        End{1, "lockstep run: refused by " + leader_ + ": " + refused->reason + "\n", std::nullopt};
    end_when_stopped();
    return;
  }
  if (const auto* start = std::get_if<Start>(&message)) {
    attempt_ = start->plan.attempt;
    workers_running_ = true;
    if (start->node_rank != 0) {
      leader_ = "node 0 '" + start->plan.nodes.front().host + "'";
    }
  }
  commands_.push_back(message);
}

void Member::on_time() {
  if (own_end_) {
    return;
  }
  if (!channel_) {
    try_to_join();
    return;
  }
  try {
    channel_->check(context_.options.nodes.node_timeout);
    watch();
  } catch (const PeerError& error) {
    lose_leader(error.what());
  }
}

void Member::lose_leader(const std::string& why) {
  if (attempt_ < 0 && !own_end_) {
    leave(why);
    return;
  }
  loop_.forget(channel_->fd());
  if (own_end_) {
    return;
  }
  own_end_ =
      End{1, "lockstep run: the job failed: " + leader_ + " is lost: " + why + "\n", std::nullopt};
  if (workers_running_) {
    commands_.emplace_back(Stop{attempt_, SIGTERM});
  }
  end_when_stopped();
}

void Member::reject_leader(const std::string& why) {
  if (attempt_ >= 0) {
    lose_leader(why);
    return;
  }
  loop_.forget(channel_->fd());
  own_end_ = End{1,
                 "lockstep run: " + to_text(context_.options.nodes.endpoint) +
                     " is no launcher of this job: " + why + "\n",
                 std::nullopt};
  end_when_stopped();
}

void Member::end_when_stopped() {
  if (own_end_ && !workers_running_) {
    commands_.emplace_back(*own_end_);
  }
}

void Member::report(const Message& message) {
  if (std::holds_alternative<Stopped>(message) || std::holds_alternative<Done>(message)) {
    workers_running_ = false;
    end_when_stopped();
  }
  const auto* interrupted = std::get_if<Interrupted>(&message);
  if (interrupted != nullptr && (!channel_ || own_end_)) {
    own_end_ = End{128 + interrupted->signal, "", std::nullopt};
    end_when_stopped();
    return;
  }
  if (channel_ && !own_end_) {
    channel_->send(message);
    watch();
  }
}

bool Member::sweep() { return kill_descendants(Deadline::in(kMemberSweeps)); }

void Member::give_up(const std::string& why) {
  if (channel_ && !own_end_) {
    channel_->send(Unable{std::max(attempt_, 0), why});
  }
}

void Member::close(Deadline deadline) {
  if (channel_) {
    loop_.forget(channel_->fd());
    channel_->close(deadline);
  }
}

}  // namespace lockstep::launch
