// Whether the host at the other end of a TCP connection still answers.
#pragma once

namespace lockstep {

// Lets the kernel ask every second, while the connection is idle, whether the other end is there.
// After three probes without an answer the kernel ends the connection.
void keep_alive(int fd);

// Whether the other host has acknowledged nothing for 3 s although it was asked or sent something.
// A process that is stopped or reads nothing is not silent: its kernel answers. False for a
// descriptor that is no TCP connection.
bool is_silent(int fd);

}  // namespace lockstep
