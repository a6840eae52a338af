// The key-value store of a job, in a process of its own beside its workers.
//
// The launcher binds the socket and hands it over, so that no port has to be guessed; the store
// then serves until SIGTERM. (It also dies with the launcher, which asked the kernel for that
// before it executed the program.)
#pragma once

namespace lockstep::comm {

// What follows the program's name when a launcher starts it as the store.
inline constexpr const char* kServeStore = "--listen-fd";

// The whole of such a program: its arguments are that and a descriptor. Must come before anything
// that makes threads. Returns an exit code if they are wrong.
int store_main(int argc, char** argv);

}  // namespace lockstep::comm
