// Every time limit of the launcher that no flag sets, and how they depend on each other.
//
// The limits of different processes must nest: who waits for another process waits longer than
// that process may take. A change that breaks an order does not compile.
#pragma once

#include <chrono>

namespace lockstep::launch {

// The agent's loop: how often it looks at the clock, while something has a deadline and otherwise.
inline constexpr std::chrono::milliseconds kTick{50};
inline constexpr std::chrono::minutes kQuietTick{1};

// Between nodes.
inline constexpr std::chrono::seconds kLateNodes{10};  // Until the leader says who is missing.
inline constexpr std::chrono::milliseconds kHeartbeatInterval{500};
inline constexpr std::chrono::seconds kLeastNodeTimeout{2};  // The least --node-timeout.
inline constexpr std::chrono::hours kMostNodeTimeout{24};
inline constexpr std::chrono::seconds kStrangerLimit{2};  // For a first message.
inline constexpr std::chrono::seconds kOneTry{1};  // To join; signals are not seen meanwhile.
inline constexpr std::chrono::milliseconds kBetweenTries{200};
inline constexpr std::chrono::seconds kFarewellPatience{1};  // For the last word to arrive.

// The end of an attempt, after --shutdown-timeout has passed or all workers have ended. A process
// survives SIGKILL only inside a system call that cannot be interrupted.
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
// After a second signal the agent kills everything itself; this is for an agent that cannot.
inline constexpr std::chrono::milliseconds kAgentPatience{1000};
// And this is for one that has said how the job ended, and only tidies up and talks.
inline constexpr std::chrono::seconds kTidyPatience{6};
inline constexpr std::chrono::seconds kAgentsEndIn{5};  // The supervisor's last sweep.

// Between the two paths of one signal. A user's second Ctrl-C comes by the path of the first.
inline constexpr std::chrono::seconds kEchoLimit{5};
// After a second signal all workers are gone: docs/launcher.md, "Who watches whom".
inline constexpr std::chrono::seconds kGoneAfterSecondSignal{2};

// A node is not lost for one heartbeat that comes late.
static_assert(kTick < kHeartbeatInterval && 3 * kHeartbeatInterval < kLeastNodeTimeout);
// A leader that sweeps reads no first message meanwhile.
static_assert(kLeaderSweeps < kStrangerLimit);
// A node that does all it can to stop its workers is not given up by the leader.
static_assert(kWorkersEndIn + kMemberSweeps + kDrainPatience < kStopSlack);
static_assert(kWorkersEndIn + kLeaderSweeps + kDrainPatience < kStopSlack);
// An agent that is busy still takes both paths of a signal for one.
static_assert(kMemberSweeps + kDrainPatience + kOneTry < kEchoLimit);
static_assert(kKillPatience < kEchoLimit);
// The supervisor does not kill an agent that kills, nor one that says goodbye to other nodes and
// then finds that nobody reads its stdout and its stderr.
static_assert(kKillPatience < kTidyPatience);
static_assert(kFarewellPatience + 2 * kConsolePatience < kTidyPatience);
static_assert(kConsolePatience < kConsoleLimit);
// Workers are gone in time whether the agent kills them or the supervisor has to.
static_assert(kKillPatience < kGoneAfterSecondSignal && kAgentPatience < kGoneAfterSecondSignal);

}  // namespace lockstep::launch
