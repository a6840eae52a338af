// The collectives that move bytes and compute nothing: all are one exchange, in which each rank
// gives some bytes to each other rank. Chunk by chunk: stage, meet, read; one meeting per chunk.
#include <algorithm>
#include <cstring>

#include "lockstep/shm/collectives/collectives.h"

namespace lockstep::shm {
namespace {

struct Exchange {
  std::vector<Input> gives;   // By receiver.
  std::vector<Output> takes;  // By giver.
  bool same_for_all = false;  // All receivers get the same bytes: they are staged once.
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
      team_.given(team_.rank())[rank].store(exchange_.gives[rank].bytes, kRelaxed);
      team_.taken(team_.rank())[rank].store(exchange_.takes[rank].bytes, kRelaxed);
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
  // Where in a giver's staging buffer lies what it gives to a rank.
  [[nodiscard]] std::size_t offset_for(std::size_t receiver) const {
    return exchange_.same_for_all ? 0 : receiver * slice_;
  }

  void copy_in(std::size_t chunk, std::byte* staging) const {
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      const auto& give = exchange_.gives[rank];
      const auto range = part(chunk, give.bytes);
      if (rank != me_ && range.bytes > 0) {
        std::memcpy(staging + offset_for(rank), give.data + range.at, range.bytes);
        if (exchange_.same_for_all) {
          return;
        }
      }
    }
  }

  void copy_out(std::size_t chunk) const {
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      const auto& take = exchange_.takes[rank];
      const auto range = part(chunk, take.bytes);
      if (rank != me_ && range.bytes > 0) {
        std::memcpy(take.data + range.at, team_.staging(static_cast<int>(rank)) + offset_for(me_),
                    range.bytes);
      }
    }
  }

  void copy_own() const {
    const auto& give = exchange_.gives[me_];
    const auto& take = exchange_.takes[me_];
    if (take.bytes > 0 && take.data != give.data) {
      std::memmove(take.data, give.data, take.bytes);
    }
  }

  // All ranks look at all pairs in the same order and find the same difference.
  std::size_t check_tables() {
    std::size_t most = 0;
    for (int giver = 0; giver < team_.size(); ++giver) {
      for (int taker = 0; taker < team_.size(); ++taker) {
        const auto given = team_.given(giver)[taker].load(kRelaxed);
        const auto taken = team_.taken(taker)[giver].load(kRelaxed);
        if (given != taken) {
          const auto& watch = team_.watch();
          team_.mismatch(watch.who(giver) + " has " + std::to_string(given) + " bytes for " +
                         watch.who(taker) + ", which expects " + std::to_string(taken));
        }
        if (giver != taker) {
          most = std::max(most, static_cast<std::size_t>(given));
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
    std::fill(exchange.gives.begin(), exchange.gives.end(), Input{tensor.data, bytes});
  }
  exchange.takes[static_cast<std::size_t>(root)] = {tensor.data, bytes};
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
  exchange.gives[static_cast<std::size_t>(root)] = input;
  if (team.rank() == root) {
    exchange.takes = outputs;
  }
  Exchanging(team, exchange).run({.kind = Kind::kGather, .dtype = dtype, .root = root}, deadline);
}

void scatter(Team& team, const Output& output, const std::vector<Input>& inputs, DType dtype,
             int root, Deadline deadline) {
  Exchange exchange = nothing(team);
  if (team.rank() == root) {
    exchange.gives = inputs;
  }
  exchange.takes[static_cast<std::size_t>(root)] = output;
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
