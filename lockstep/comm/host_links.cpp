#include "lockstep/comm/host_links.h"

#include <ATen/ops/tensor.h>
#include <ATen/ops/view_as_real.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cstring>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/no_sigpipe.h"
#include "lockstep/base/text.h"
#include "lockstep/comm/host_verdict.h"
#include "lockstep/comm/peer_error.h"
#include "lockstep/comm/tensor_lists.h"

namespace lockstep::comm {
namespace {

// Of a tensor that is summed. Smaller ones cost more round trips, larger ones more time in which
// the network has nothing to do: 25 MiB over 1 Gbit/s took 267 ms in one piece (2 hosts with 2
// ranks on 2 cores, 2026-11-15).
constexpr std::int64_t kPieceBytes = std::int64_t{4} << 20;
// A rank on the host of one that died knows more than one that lost a connection to it.
constexpr std::chrono::milliseconds kLetOthersSpeak{300};

c10::intrusive_ptr<c10d::Store> below(const BackendRequest& request, const std::string& prefix) {
  return c10::make_intrusive<c10d::PrefixStore>(prefix, request.store);
}

std::chrono::milliseconds left(Deadline deadline) {
  return std::max(deadline.remaining(), std::chrono::milliseconds(1));
}

// Gloo's reductions have few types; the others travel as one that holds their values.
at::Tensor as_gloo_takes_it(const at::Tensor& share) {
  switch (share.scalar_type()) {
    case at::kShort:
    case at::kBool:
      return share.to(at::kInt);
    case at::kComplexFloat:
    case at::kComplexDouble:
      return at::view_as_real(share);
    default:
      return share;
  }
}

// std::hash may differ between the hosts' libraries.
std::uint64_t fnv1a(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  return hash;
}

}  // namespace

HostLinks::HostLinks(const BackendRequest& request, const HostMap& map, const BackendFactory& gloo)
    : map_(map), rank_(request.rank), store_(request.store) {
  const auto deadline = Deadline::in(request.connect_timeout);
  const auto request_for = [&](const std::string& prefix, int rank, std::size_t size) {
    BackendRequest part = request;
    part.store = below(request, prefix);
    part.rank = rank;
    part.size = static_cast<int>(size);
    part.connect_timeout = left(deadline);
    return part;
  };
  const auto& neighbours = map_.ranks_on(map_.here());
  if (neighbours.size() > 1) {
    const auto inside =
        request_for("inside/" + std::to_string(map_.here()), local_rank(), neighbours.size());
    try {
      inside_ = c10::make_intrusive<ShmBackend>(inside, neighbours);
    } catch (const PeerError& error) {
      throw PeerError("on " + map_.describe(map_.here()) +
                      ", whose ranks are numbered from 0 here: " + error.what());
    }
  }
  // A lane is a group of its own also where each host has one rank: Gloo counts the collectives of
  // a group, and those of a lane are started by another thread than the others.
  const auto open_lane_and_everybody = [&] {
    const NoSigpipe no_sigpipe;  // For Gloo's threads, which write to connections that we cut.
    everybody_ = gloo(request_for("everybody", rank_, static_cast<std::size_t>(request.size)));
    if (const auto lane = map_.lane()) {
      lane_ = gloo(request_for("lane/" + std::to_string(*lane), map_.here(),
                               static_cast<std::size_t>(map_.hosts())));
    }
  };
  connections_.add_opened_by(open_lane_and_everybody, map_.addresses_of_all());
  connections_.watch(map_.addresses_of_others());
}

HostLinks::~HostLinks() { leave(); }

void HostLinks::leave() {
  if (inside_) {
    inside_->shutdown();
  }
}

void HostLinks::leave_at_once() {
  {
    const std::lock_guard lock(mutex_);
    if (broken_.empty()) {
      broken_ = "rank " + std::to_string(rank_) + " has left the group; form a new one";
    }
  }
  leave();
  connections_.cut();
}

bool HostLinks::reduces(const at::Tensor& tensor, const c10d::ReduceOp& op) {
  const bool is_sum =
      op == c10d::ReduceOp::SUM || op == c10d::ReduceOp::AVG || op == c10d::ReduceOp::PREMUL_SUM;
  switch (tensor.scalar_type()) {
    case at::kFloat:
    case at::kDouble:
    case at::kHalf:
    case at::kBFloat16:
    case at::kChar:
    case at::kByte:
    case at::kShort:
    case at::kInt:
    case at::kLong:
      return true;
    case at::kBool:
      return op != c10d::ReduceOp::AVG && op != c10d::ReduceOp::PREMUL_SUM;
    case at::kComplexFloat:
    case at::kComplexDouble:
      return is_sum;
    default:
      return false;
  }
}

HostLinks::Tensors HostLinks::shares_of(const at::Tensor& flat) const {
  Tensors shares;
  const auto ranks = static_cast<int>(map_.ranks_on(map_.here()).size());
  for (int rank = 0; rank < ranks; ++rank) {
    const auto range = map_.share(flat.numel(), rank);
    shares.push_back(flat.narrow(0, range.at, range.count));
  }
  return shares;
}

// Each rank of a host sums its share over the host, then over the hosts, and tells its neighbours:
// piece by piece, so that shared memory works on one while the network is busy with another.
void HostLinks::all_reduce(const at::Tensor& tensor, const c10d::ReduceOp& op, Deadline deadline) {
  auto agreement = propose("all_reduce (" + std::string(c10::toString(tensor.scalar_type())) +
                               ", " + std::to_string(tensor.numel()) + " elements, operation " +
                               std::to_string(static_cast<int>(op.op_)) + ")",
                           deadline);
  const at::Tensor flat = tensor.view({-1});
  const std::int64_t piece =
      std::max<std::int64_t>(1, kPieceBytes / static_cast<std::int64_t>(tensor.element_size()));
  std::vector<Carried> pieces;
  for (std::int64_t at = 0; at < flat.numel(); at += piece) {
    const auto shares = shares_of(flat.narrow(0, at, std::min(piece, flat.numel() - at)));
    sum_inside(shares, op, deadline);
    if (at == 0) {
      require(agreement, deadline);
    }
    pieces.push_back(carry(shares, op, deadline));
  }
  if (flat.numel() == 0) {
    require(agreement, deadline);
  }
  for (const auto& carried : pieces) {
    arrive(carried, op);
    gather_inside(carried.shares, deadline);
  }
}

void HostLinks::sum_inside(const Tensors& shares, const c10d::ReduceOp& op,
                           Deadline deadline) const {
  const auto& mine = shares[static_cast<std::size_t>(local_rank())];
  if (!inside_) {
    if (op == c10d::ReduceOp::PREMUL_SUM) {
      mine.mul_(shm_fold(op, mine, "all_reduce").factor);
    }
    return;
  }
  Tensors outputs{mine};
  std::vector<Tensors> inputs{shares};
  c10d::ReduceScatterOptions options;
  options.reduceOp = op == c10d::ReduceOp::AVG ? c10d::ReduceOp(c10d::ReduceOp::SUM) : op;
  options.timeout = left(deadline);
  inside_->reduce_scatter(outputs, inputs, options)->wait();
}

HostLinks::Carried HostLinks::carry(const Tensors& shares, const c10d::ReduceOp& op,
                                    Deadline deadline) const {
  Carried carried{.shares = shares, .sent = {}, .work = nullptr};
  const auto& mine = shares[static_cast<std::size_t>(local_rank())];
  if (!lane_ || mine.numel() == 0) {
    return carried;
  }
  carried.sent = as_gloo_takes_it(mine);
  Tensors tensors{carried.sent};
  c10d::AllreduceOptions options;
  const bool is_sum = op == c10d::ReduceOp::AVG || op == c10d::ReduceOp::PREMUL_SUM;
  options.reduceOp = is_sum ? c10d::ReduceOp(c10d::ReduceOp::SUM) : op;
  options.timeout = left(deadline);
  carried.work = lane_->allreduce(tensors, options);
  return carried;
}

void HostLinks::arrive(const Carried& carried, const c10d::ReduceOp& op) const {
  if (!carried.work) {
    return;
  }
  carried.work->wait();
  const auto& mine = carried.shares[static_cast<std::size_t>(local_rank())];
  if (carried.sent.scalar_type() != mine.scalar_type() && !mine.is_complex()) {
    mine.copy_(carried.sent);
  }
  if (op == c10d::ReduceOp::AVG) {
    divide_in_place(mine, everybody_->getSize());
  }
}

void HostLinks::gather_inside(const Tensors& shares, Deadline deadline) const {
  if (!inside_) {
    return;
  }
  Tensors inputs{shares[static_cast<std::size_t>(local_rank())]};
  std::vector<Tensors> outputs{shares};
  c10d::AllgatherOptions options;
  options.timeout = left(deadline);
  inside_->allgather(outputs, inputs, options)->wait();
}

// As bytes: Gloo does not know every type.
void HostLinks::broadcast(const at::Tensor& tensor, int root, Deadline deadline) {
  auto agreement = propose("broadcast (" + std::to_string(tensor.nbytes()) + " bytes from rank " +
                               std::to_string(root) + ")",
                           deadline);
  const at::Tensor bytes = tensor.view({-1}).view(at::kByte);
  const auto shares = shares_of(bytes);
  const bool root_is_here = map_.host_of(root) == map_.here();
  c10d::BroadcastOptions options;
  if (root_is_here && inside_) {
    Tensors tensors{bytes};
    options.rootRank = map_.local_rank_of(root);
    options.timeout = left(deadline);
    inside_->broadcast(tensors, options)->wait();
  }
  require(agreement, deadline);
  Tensors mine{shares[static_cast<std::size_t>(local_rank())]};
  if (lane_ && mine[0].numel() > 0) {
    options.rootRank = map_.host_of(root);
    options.timeout = left(deadline);
    lane_->broadcast(mine, options)->wait();
  }
  if (!root_is_here) {
    gather_inside(shares, deadline);
  }
}

void HostLinks::barrier(Deadline deadline) {
  const auto meet_inside = [&] {
    if (inside_) {
      c10d::BarrierOptions options;
      options.timeout = left(deadline);
      inside_->barrier(options)->wait();
    }
  };
  meet_inside();
  const auto agreement = propose("barrier", deadline);  // All of a lane have come when it is there.
  require(agreement, deadline);
  meet_inside();  // Until the neighbours' lanes are through as well.
}

// The largest and, by its negative, the smallest of all hosts' numbers: equal if all are.
HostLinks::Agreement HostLinks::propose(const std::string& call, Deadline deadline) const {
  Agreement agreement{.call = call, .numbers = {}, .work = nullptr};
  if (lane_) {
    const auto number = static_cast<std::int64_t>(fnv1a(call) >> 1);
    agreement.numbers = at::tensor({number, -number}, at::kLong);
    Tensors tensors{agreement.numbers};
    c10d::AllreduceOptions options;
    options.reduceOp = c10d::ReduceOp::MAX;
    options.timeout = left(deadline);
    agreement.work = lane_->allreduce(tensors, options);
  }
  return agreement;
}

void HostLinks::require(const Agreement& agreement, Deadline deadline) const {
  if (!agreement.work) {
    return;
  }
  agreement.work->wait();
  const auto* numbers = agreement.numbers.const_data_ptr<std::int64_t>();
  if (numbers[0] == -numbers[1]) {
    return;
  }
  // All hosts of the lane have come here, and say what they call.
  constexpr std::int64_t kChars = 128;
  const auto own = at::zeros({kChars}, at::kByte);
  std::memcpy(own.data_ptr(), agreement.call.data(),
              std::min<std::size_t>(agreement.call.size(), kChars - 1));
  std::vector<Tensors> all{Tensors()};
  for (int host = 0; host < map_.hosts(); ++host) {
    all[0].push_back(at::zeros({kChars}, at::kByte));
  }
  Tensors inputs{own};
  c10d::AllgatherOptions options;
  options.timeout = left(deadline);
  lane_->allgather(all, inputs, options)->wait();
  std::vector<std::string> calls;
  for (int host = 0; host < map_.hosts(); ++host) {
    calls.push_back(
        map_.describe(host) + " calls " +
        static_cast<const char*>(all[0][static_cast<std::size_t>(host)].const_data_ptr()));
  }
  throw PeerError("the hosts' calls do not match: " + join(calls, ", ") +
                  "; all ranks must run the same collectives in the same order");
}

void HostLinks::fail(const std::string& what, const std::exception& error) {
  if (dynamic_cast<const UsageError*>(&error) != nullptr) {
    throw UsageError(error.what());
  }
  if (is_argument_error(words_of(error))) {
    throw UsageError(what + ": " + words_of(error));
  }
  throw_if_broken(what);
  const bool from_inside = dynamic_cast<const PeerError*>(&error) != nullptr;
  if (!from_inside) {
    std::this_thread::sleep_for(kLetOthersSpeak);
  }
  const std::string reason =
      first_reason(store_, reason_of(error, map_, rank_, connections_.silent()));
  {
    const std::lock_guard lock(mutex_);
    if (broken_.empty()) {
      broken_ = reason;
    }
  }
  if (inside_) {
    inside_->break_up(reason);
  }
  connections_.cut();
  throw_if_broken(what);
  throw PeerError(what + ": " + reason);  // Not reached: it is broken now.
}

void HostLinks::throw_if_broken(const std::string& what) const {
  const std::lock_guard lock(mutex_);
  if (!broken_.empty()) {
    throw PeerError(what + ": " + broken_);
  }
}

}  // namespace lockstep::comm
