// The collectives that move bytes and compute nothing: all are one exchange, in which each rank
// sends some bytes to each other rank. Chunk by chunk: stage, meet, read; one meeting per chunk.
#include <algorithm>
#include <cstring>

#include "lockstep/shm/collectives/collectives.h"

namespace lockstep::shm {
namespace {

struct Exchange {
  std::vector<Input> sends;      // By receiver.
  std::vector<Output> receives;  // By sender.
  bool same_for_all = false;     // All receivers get the same bytes: they are staged once.
};

class Exchanging {
 public:
  Exchanging(Team& team, const Exchange& exchange)
      : team_(team),
        exchange_(exchange),
        ranks_(static_cast<std::size_t>(team.size())),
        me_(static_cast<std::size_t>(team.rank())) {
    const std::size_t staging = team.memory()->layout().staging_bytes;
    slice_ = exchange.same_for_all ? staging : staging / ranks_ / kLine * kLine;
  }

  void run(const Call& call, Deadline deadline) {
    team_.announce(call, deadline);
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      team_.sent_sizes(team_.rank())[rank].store(exchange_.sends[rank].bytes, kRelaxed);
      team_.received_sizes(team_.rank())[rank].store(exchange_.receives[rank].bytes, kRelaxed);
    }
    copy_in(0, team_.staging(team_.rank()));
    team_.agree();
    const std::size_t chunks = check_tables();
    copy_own();
    for (std::size_t c = 0; c < chunks; ++c) {
      copy_out(c);
      if (c + 1 < chunks) {
        copy_in(c + 1, team_.staging_of_next_turn(team_.rank()));
        team_.meet();
      }
      team_.next_turn();
    }
  }

 private:
  static constexpr auto kRelaxed = std::memory_order_relaxed;

  struct Range {
    std::size_t at;
    std::size_t bytes;
  };
  [[nodiscard]] Range part(std::size_t chunk, std::size_t bytes) const {
    const std::size_t at = std::min(chunk * slice_, bytes);
    return {at, std::min(slice_, bytes - at)};
  }
  // Where in a sender's staging buffer lies what it sends to a rank.
  [[nodiscard]] std::size_t offset_for(std::size_t receiver) const {
    return exchange_.same_for_all ? 0 : receiver * slice_;
  }

  void copy_in(std::size_t chunk, std::byte* staging) const {
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      const auto& sent = exchange_.sends[rank];
      const auto range = part(chunk, sent.bytes);
      if (rank != me_ && range.bytes > 0) {
        std::memcpy(staging + offset_for(rank), sent.data + range.at, range.bytes);
        if (exchange_.same_for_all) {
          return;
        }
      }
    }
  }

  void copy_out(std::size_t chunk) const {
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      const auto& received = exchange_.receives[rank];
      const auto range = part(chunk, received.bytes);
      if (rank != me_ && range.bytes > 0) {
        std::memcpy(received.data + range.at,
                    team_.staging(static_cast<int>(rank)) + offset_for(me_), range.bytes);
      }
    }
  }

  void copy_own() const {
    const auto& sent = exchange_.sends[me_];
    const auto& received = exchange_.receives[me_];
    if (received.bytes > 0 && received.data != sent.data) {
      std::memmove(received.data, sent.data, received.bytes);
    }
  }

  // All ranks look at all pairs in the same order and find the same difference.
  std::size_t check_tables() {
    std::size_t most = 0;
    for (int sender = 0; sender < team_.size(); ++sender) {
      for (int receiver = 0; receiver < team_.size(); ++receiver) {
        const auto sent = team_.sent_sizes(sender)[receiver].load(kRelaxed);
        const auto expected = team_.received_sizes(receiver)[sender].load(kRelaxed);
        if (sent != expected) {
          const auto& watch = team_.watch();
          team_.mismatch(watch.who(sender) + " has " + std::to_string(sent) + " bytes for " +
                         watch.who(receiver) + ", which expects " + std::to_string(expected));
        }
        if (sender != receiver) {
          most = std::max(most, static_cast<std::size_t>(sent));
        }
      }
    }
    return most / slice_ + (most % slice_ != 0 ? 1 : 0);
  }

  Team& team_;
  const Exchange& exchange_;
  std::size_t ranks_;
  std::size_t me_;
  std::size_t slice_;
};

Exchange nothing(const Team& team) {
  const auto ranks = static_cast<std::size_t>(team.size());
  return {std::vector<Input>(ranks), std::vector<Output>(ranks), false};
}

}  // namespace

void broadcast(Team& team, const Tensor& tensor, DType dtype, int root, Deadline deadline) {
  Exchange exchange = nothing(team);
  exchange.same_for_all = true;
  const std::size_t bytes = tensor.count * size_of(dtype);
  if (team.rank() == root) {
    std::fill(exchange.sends.begin(), exchange.sends.end(), Input{tensor.data, bytes});
  }
  exchange.receives[static_cast<std::size_t>(root)] = {tensor.data, bytes};
  Exchanging(team, exchange)
      .run({.kind = Kind::kBroadcast, .dtype = dtype, .root = root, .count = tensor.count},
           deadline);
}

void all_gather(Team& team, const std::vector<Output>& outputs, const Input& input, DType dtype,
                Deadline deadline) {
  const Exchange exchange{std::vector<Input>(outputs.size(), input), outputs, true};
  Exchanging(team, exchange).run({.kind = Kind::kAllGather, .dtype = dtype}, deadline);
}

void gather(Team& team, const std::vector<Output>& outputs, const Input& input, DType dtype,
            int root, Deadline deadline) {
  Exchange exchange = nothing(team);
  exchange.same_for_all = true;
  exchange.sends[static_cast<std::size_t>(root)] = input;
  if (team.rank() == root) {
    exchange.receives = outputs;
  }
  Exchanging(team, exchange).run({.kind = Kind::kGather, .dtype = dtype, .root = root}, deadline);
}

void scatter(Team& team, const Output& output, const std::vector<Input>& inputs, DType dtype,
             int root, Deadline deadline) {
  Exchange exchange = nothing(team);
  if (team.rank() == root) {
    exchange.sends = inputs;
  }
  exchange.receives[static_cast<std::size_t>(root)] = output;
  Exchanging(team, exchange).run({.kind = Kind::kScatter, .dtype = dtype, .root = root}, deadline);
}

void all_to_all(Team& team, const std::vector<Output>& outputs, const std::vector<Input>& inputs,
                DType dtype, Deadline deadline) {
  const Exchange exchange{inputs, outputs, false};
  Exchanging(team, exchange).run({.kind = Kind::kAllToAll, .dtype = dtype}, deadline);
}

void barrier(Team& team, Deadline deadline) {
  team.announce({.kind = Kind::kBarrier}, deadline);
  team.agree();
}

}  // namespace lockstep::shm
