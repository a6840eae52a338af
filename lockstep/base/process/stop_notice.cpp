#include "lockstep/base/process/stop_notice.h"

#include <csignal>

namespace lockstep {
namespace {

void change_mask_of_notice(int how) {
  sigset_t notice;
  ::sigemptyset(&notice);
  ::sigaddset(&notice, SIGUSR1);
  ::pthread_sigmask(how, &notice, nullptr);
}

}  // namespace

void hold_back_stop_notice() { change_mask_of_notice(SIG_BLOCK); }
void let_stop_notice_in() { change_mask_of_notice(SIG_UNBLOCK); }

}  // namespace lockstep
