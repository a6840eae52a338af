#include "lockstep/comm/host_collectives.h"

#include <ATen/ops/view_as_real.h>

#include <algorithm>

#include "lockstep/comm/host_agreement.h"
#include "lockstep/comm/shm_tensor.h"
#include "lockstep/comm/tensor_lists.h"

namespace lockstep::comm {
namespace {

// Of a tensor that is summed. Smaller ones cost more round trips, larger ones more time in which
// the network has nothing to do: 25 MiB over 1 Gbit/s took 267 ms in one piece (2 hosts with 2
// ranks on 2 cores, 2026-11-15).
constexpr std::int64_t kPieceBytes = std::int64_t{4} << 20;

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

}  // namespace

HostCollectives::HostCollectives(HostMap map, int rank, int size,
                                 c10::intrusive_ptr<c10d::Backend> inside,
                                 c10::intrusive_ptr<c10d::Backend> lane, const WatchedWait& waiter)
    : map_(std::move(map)),
      rank_(rank),
      size_(size),
      inside_(std::move(inside)),
      lane_(std::move(lane)),
      waiter_(waiter) {}

const at::Tensor& HostCollectives::own(const Tensors& shares) const {
  return shares[static_cast<std::size_t>(map_.local_rank_of(rank_))];
}

bool HostCollectives::reduces(const at::Tensor& tensor, const c10d::ReduceOp& op) {
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

HostCollectives::Tensors HostCollectives::shares_of(const at::Tensor& flat) const {
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
void HostCollectives::all_reduce(const at::Tensor& tensor, const c10d::ReduceOp& op,
                                 Deadline deadline) const {
  const HostAgreement agreement(lane_,
                                "all_reduce (" + std::string(c10::toString(tensor.scalar_type())) +
                                    ", " + std::to_string(tensor.numel()) + " elements, " +
                                    name_of(shm_fold(op, tensor, "all_reduce").reduction.op) + ")",
                                waiter_, deadline);
  const at::Tensor flat = tensor.view({-1});
  const std::int64_t piece =
      std::max<std::int64_t>(1, kPieceBytes / static_cast<std::int64_t>(tensor.element_size()));
  std::vector<Carried> pieces;
  for (std::int64_t at = 0; at < flat.numel(); at += piece) {
    const auto shares = shares_of(flat.narrow(0, at, std::min(piece, flat.numel() - at)));
    sum_inside(shares, op, deadline);
    if (at == 0) {
      agreement.require(map_, deadline);
    }
    pieces.push_back(carry(shares, op, deadline));
  }
  if (flat.numel() == 0) {
    agreement.require(map_, deadline);
  }
  for (const auto& carried : pieces) {
    arrive(carried, op);
    gather_inside(carried.shares, deadline);
  }
}

void HostCollectives::sum_inside(const Tensors& shares, const c10d::ReduceOp& op,
                                 Deadline deadline) const {
  const auto& mine = own(shares);
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
  options.timeout = deadline.as_timeout();
  inside_->reduce_scatter(outputs, inputs, options)->wait();
}

HostCollectives::Carried HostCollectives::carry(const Tensors& shares, const c10d::ReduceOp& op,
                                                Deadline deadline) const {
  Carried carried{.shares = shares, .sent = {}, .work = nullptr};
  const auto& mine = own(shares);
  if (!lane_ || mine.numel() == 0) {
    return carried;
  }
  carried.sent = as_gloo_takes_it(mine);
  Tensors tensors{carried.sent};
  c10d::AllreduceOptions options;
  const bool is_sum = op == c10d::ReduceOp::AVG || op == c10d::ReduceOp::PREMUL_SUM;
  options.reduceOp = is_sum ? c10d::ReduceOp(c10d::ReduceOp::SUM) : op;
  options.timeout = deadline.as_timeout();
  carried.work = waiter_.remember(lane_->allreduce(tensors, options));
  return carried;
}

void HostCollectives::arrive(const Carried& carried, const c10d::ReduceOp& op) const {
  if (!carried.work) {
    return;
  }
  waiter_.wait(*carried.work);
  const auto& mine = own(carried.shares);
  if (carried.sent.scalar_type() != mine.scalar_type() && !mine.is_complex()) {
    mine.copy_(carried.sent);
  }
  if (op == c10d::ReduceOp::AVG) {
    divide_in_place(mine, size_);
  }
}

void HostCollectives::gather_inside(const Tensors& shares, Deadline deadline) const {
  if (!inside_) {
    return;
  }
  Tensors inputs{own(shares)};
  std::vector<Tensors> outputs{shares};
  c10d::AllgatherOptions options;
  options.timeout = deadline.as_timeout();
  inside_->allgather(outputs, inputs, options)->wait();
}

// As bytes: Gloo does not know every type.
void HostCollectives::broadcast(const at::Tensor& tensor, int root, Deadline deadline) const {
  const HostAgreement agreement(lane_,
                                "broadcast (" + std::to_string(tensor.nbytes()) +
                                    " bytes from rank " + std::to_string(root) + ")",
                                waiter_, deadline);
  const at::Tensor bytes = tensor.view({-1}).view(at::kByte);
  const auto shares = shares_of(bytes);
  const bool root_is_here = map_.host_of(root) == map_.here();
  c10d::BroadcastOptions options;
  if (root_is_here && inside_) {
    Tensors tensors{bytes};
    options.rootRank = map_.local_rank_of(root);
    options.timeout = deadline.as_timeout();
    inside_->broadcast(tensors, options)->wait();
  }
  agreement.require(map_, deadline);
  Tensors mine{own(shares)};
  if (lane_ && mine[0].numel() > 0) {
    options.rootRank = map_.host_of(root);
    options.timeout = deadline.as_timeout();
    waiter_.wait(*lane_->broadcast(mine, options));
  }
  if (!root_is_here) {
    gather_inside(shares, deadline);
  }
}

void HostCollectives::barrier(Deadline deadline) const {
  meet_inside(deadline);
  // All of a lane have come when it is there.
  HostAgreement(lane_, "barrier", waiter_, deadline).require(map_, deadline);
  meet_inside(deadline);  // Until the neighbours' lanes are through as well.
}

void HostCollectives::meet_inside(Deadline deadline) const {
  if (inside_) {
    c10d::BarrierOptions options;
    options.timeout = deadline.as_timeout();
    inside_->barrier(options)->wait();
  }
}

}  // namespace lockstep::comm
