// Every time limit of the launcher that no flag sets, and how they depend on each other.
//
// The limits of different processes must nest: a process that waits for another one must wait
// longer than that one may take. A change that breaks this order does not compile.
#pragma once

#include <chrono>

#include "lockstep/base/process/stop_notice.h"

namespace lockstep::launch {

// How often the agent's loop looks at the clock: while something has a deadline, and otherwise.
inline constexpr std::chrono::milliseconds kTick{50};
inline constexpr std::chrono::minutes kQuietTick{1};

// Between nodes.
inline constexpr std::chrono::seconds kLateNodes{10};  // Until the leader says who is missing.
inline constexpr std::chrono::milliseconds kHeartbeatInterval{500};
inline constexpr std::chrono::seconds kLeastNodeTimeout{2};  // The least --node-timeout.
inline constexpr std::chrono::hours kMostNodeTimeout{24};
inline constexpr std::chrono::seconds kStrangerLimit{2};  // For a first message.
// One attempt to join; signals are not seen meanwhile.
inline constexpr std::chrono::seconds kConnectAttempt{1};
inline constexpr std::chrono::milliseconds kBetweenTries{200};
inline constexpr std::chrono::seconds kFarewellPatience{1};  // For the last word to arrive.

// The end of an attempt, after --shutdown-timeout has passed or all workers have ended. Only a
// process inside an uninterruptible system call survives SIGKILL.
inline constexpr std::chrono::seconds kSilence{1};  // Before a user wonders what we wait for.
inline constexpr std::chrono::seconds kWorkersEndIn{5};
inline constexpr std::chrono::seconds kLeaderSweeps{1};  // What workers have left behind.
inline constexpr std::chrono::seconds kMemberSweeps{2};
inline constexpr std::chrono::seconds kDrainPatience{1};  // For the rest of the workers' output.
// What the leader grants all nodes on top of --shutdown-timeout.
inline constexpr std::chrono::seconds kStopSlack{10};

// The end of the launcher.
inline constexpr std::chrono::milliseconds kKillPatience{1500};  // The agent's own last sweep.
inline constexpr std::chrono::seconds kConsolePatience{2};       // For a reader that takes nothing.
inline constexpr std::chrono::seconds kConsoleLimit{30};         // For one that takes little.
// After a second signal the agent kills everything itself. After this time the supervisor does it.
inline constexpr std::chrono::milliseconds kAgentPatience{1000};
// The same for an agent that has announced the exit code and only cleans up and prints.
inline constexpr std::chrono::seconds kTidyPatience{6};
inline constexpr std::chrono::seconds kAgentsEndIn{5};  // The supervisor's last sweep.

// After a second signal all workers are gone: docs/guides/launcher.md, "Who watches whom".
inline constexpr std::chrono::seconds kGoneAfterSecondSignal{2};

// One late heartbeat does not make a node lost.
static_assert(kTick < kHeartbeatInterval && 3 * kHeartbeatInterval < kLeastNodeTimeout);
// While a leader sweeps, it reads no first messages.
static_assert(kLeaderSweeps < kStrangerLimit);
// The leader does not give up a node that is still stopping its workers.
static_assert(kWorkersEndIn + kMemberSweeps + kDrainPatience < kStopSlack);
static_assert(kWorkersEndIn + kLeaderSweeps + kDrainPatience < kStopSlack);
// A busy agent still recognises both paths of a signal as one: kEchoLimit is also the trainer's.
static_assert(kMemberSweeps + kDrainPatience + kConnectAttempt < kEchoLimit);
static_assert(kKillPatience < kEchoLimit);
// The supervisor does not kill an agent that is killing workers, nor one that closes its
// connections and then finds that nobody reads its stdout and stderr.
static_assert(kKillPatience < kTidyPatience);
static_assert(kFarewellPatience + 2 * kConsolePatience < kTidyPatience);
static_assert(kConsolePatience < kConsoleLimit);
// Workers are gone in time, whether the agent or the supervisor kills them.
static_assert(kKillPatience < kGoneAfterSecondSignal && kAgentPatience < kGoneAfterSecondSignal);

}  // namespace lockstep::launch
