// A scheduler's notice that a job is to stop, SIGUSR1, and how a process ends that has obeyed. The
// launcher and the trainer agree by it: once a job has been asked to stop, nothing of it is
// restarted (launch/job/coordinator.h).
#pragma once

#include <chrono>

namespace lockstep {

// What a process that was asked to stop and has saved its work ends with: no failure, although not
// 0. The same command resumes it; `lockstep run` restarts nothing then. It is EX_TEMPFAIL of
// sysexits.h.
inline constexpr int kStoppedInOrder = 75;
// The exit code of a process that was asked to stop but could not save its work: its last steps are
// lost, so this is no stop in order. It is EX_IOERR of sysexits.h.
inline constexpr int kStoppedUnsaved = 74;

// A signal may reach a process by two paths: from the terminal, and from its launcher. The most
// time between the two. A second Ctrl-C comes by the same path as the first.
inline constexpr std::chrono::seconds kEchoLimit{5};

// Blocks SIGUSR1 in this thread and in those and the processes that it starts: a notice that comes
// while a run starts, and its libraries are loaded, would end it as a failure. Other
// signals are not blocked: they may end a process that has done nothing yet.
void hold_back_stop_notice();
// Unblocks SIGUSR1. One that arrived meanwhile is delivered now.
void let_stop_notice_in();

}  // namespace lockstep
