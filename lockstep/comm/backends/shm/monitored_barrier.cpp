#include "lockstep/comm/backends/support/monitored_barrier.h"
#include "lockstep/comm/backends/shm/backend.h"

namespace lockstep::comm {

void ShmBackend::monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) {
  group_->team->watch().throw_if_broken();
  auto& mailbox = group_->mailbox;
  MonitoredBarrier{.rank = getRank(),
                   .size = getSize(),
                   .number = monitored_barriers_++,
                   .timeout = timeout_or(options.timeout),
                   .group_timeout = timeout_or(c10d::kUnsetTimeout),
                   .wait_all_ranks = wait_all_ranks,
                   .send = [&](int to, std::uint64_t tag) { mailbox.send(to, tag, nullptr, 0); },
                   .receive = [&](int from, std::uint64_t tag) -> MonitoredBarrier::Wait {
                     return [&mailbox, receipt = mailbox.post({.source = from, .tag = tag})](
                                Deadline deadline) { mailbox.wait(*receipt, deadline); };
                   },
                   .break_up =
                       [&](const std::string& reason) {
                         group_->team->watch().break_up(shm::Watch::Reason::kAborted, reason);
                       }}
      .run();
}

}  // namespace lockstep::comm
