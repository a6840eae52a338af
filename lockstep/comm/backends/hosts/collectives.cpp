#include "lockstep/comm/backends/hosts/collectives.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/view_as_real.h>

#include <algorithm>
#include <cstring>
#include <deque>

#include "lockstep/base/text/text.h"
#include "lockstep/comm/backends/hosts/tensor_bytes.h"
#include "lockstep/comm/backends/support/tensor_bytes.h"
#include "lockstep/comm/backends/support/tensor_lists.h"

namespace lockstep::comm {
namespace {

// A tensor is summed in pieces. Smaller ones cost more round trips, larger ones more time in which
// the network has nothing to do: 25 MiB over 1 Gbit/s took 267 ms in one piece (2 hosts with 2
// ranks on 2 cores, 2026-11-15).
constexpr std::int64_t kPieceBytes = std::int64_t{4} << 20;
// On their way at once; more of them would only take memory.
constexpr std::size_t kPiecesUnderWay = 4;

bool is_sum(const c10d::ReduceOp& op) {
  return op == c10d::ReduceOp::SUM || op == c10d::ReduceOp::AVG || op == c10d::ReduceOp::PREMUL_SUM;
}

// Factors and divisors are applied elsewhere.
c10d::ReduceOp between_hosts(const c10d::ReduceOp& op) {
  return is_sum(op) ? c10d::ReduceOp(c10d::ReduceOp::SUM) : op;
}

// Gloo has few types, and its MIN and MAX of floating-point numbers lose NaN or not, by the order
// in which it compares. The rest is gathered and folded here.
bool gloo_reduces(at::ScalarType type, const c10d::ReduceOp& op) {
  switch (type) {
    case at::kFloat:
    case at::kDouble:
    case at::kHalf:
    case at::kBFloat16:
      return is_sum(op) || op == c10d::ReduceOp::PRODUCT;
    case at::kComplexFloat:
    case at::kComplexDouble:
      return is_sum(op);
    case at::kChar:
    case at::kByte:
    case at::kInt:
    case at::kLong:
      return true;
    default:
      return false;
  }
}

std::string describe(const at::Tensor& tensor, const c10d::ReduceOp& op) {
  return std::string(c10::toString(tensor.scalar_type())) + ", " + std::to_string(tensor.numel()) +
         " elements, " + name_of(shm_fold(op, tensor, "all_reduce").reduction.op);
}

// In the payload of a check each tensor begins at a multiple of this.
std::size_t aligned(std::size_t bytes) { return (bytes + 15) / 16 * 16; }

std::size_t bytes_beside(const std::vector<at::Tensor>& tensors) {
  std::size_t bytes = 0;
  for (const auto& tensor : tensors) {
    bytes += aligned(tensor.nbytes());
  }
  return bytes;
}

void fold(const std::vector<const std::byte*>& inputs, const at::Tensor& result,
          const c10d::ReduceOp& op) {
  const auto reduction = shm_fold(between_hosts(op), result, "all_reduce").reduction;
  std::byte* const output = static_cast<std::byte*>(result.data_ptr());
  shm::reduce(reduction, inputs, {&output, 1}, static_cast<std::size_t>(result.numel()));
}

}  // namespace

const at::Tensor& HostCollectives::own(const Tensors& shares) const {
  return shares[static_cast<std::size_t>(map_.local_rank_of(parts_.rank))];
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

void HostCollectives::all_reduce(const Tensors& tensors, const c10d::ReduceOp& op,
                                 Deadline deadline) const {
  std::vector<std::string> texts;
  texts.reserve(tensors.size());
  for (const auto& tensor : tensors) {
    texts.push_back(describe(tensor, op));
  }
  const std::string call = "all_reduce (" + join(texts, "; ") + ")";
  if (bytes_beside(tensors) <= CallCheck::kPayloadBytes) {
    reduce_beside(call, tensors, op, deadline);
  } else {
    reduce_in_pieces(call, tensors, op, deadline);
  }
}

// Every lane carries the host's whole result and folds those of all hosts, in one order: fewer
// steps than shares would take.
void HostCollectives::reduce_beside(const std::string& call, const Tensors& tensors,
                                    const c10d::ReduceOp& op, Deadline deadline) const {
  if (parts_.inside) {
    Tensors list = tensors;
    c10d::AllreduceCoalescedOptions options;
    options.reduceOp = op == c10d::ReduceOp::AVG ? between_hosts(op) : op;
    options.timeout = deadline.as_timeout();
    parts_.inside->allreduce_coalesced(list, options)->wait();
  }
  std::vector<std::byte> payload(bytes_beside(tensors));
  std::size_t at = 0;
  for (const auto& tensor : tensors) {
    if (!parts_.inside && op == c10d::ReduceOp::PREMUL_SUM) {
      tensor.mul_(shm_fold(op, tensor, "all_reduce").factor);
    }
    if (tensor.numel() > 0) {
      std::memcpy(payload.data() + at, tensor.const_data_ptr(), tensor.nbytes());
    }
    at += aligned(tensor.nbytes());
  }
  const auto check = check_call(call, deadline, payload);
  check.require(map_);
  at = 0;
  for (const auto& tensor : tensors) {
    if (parts_.lane && tensor.numel() > 0) {
      std::vector<const std::byte*> inputs;
      for (int host = 0; host < map_.hosts(); ++host) {
        inputs.push_back(check.payload_of(host) + at);
      }
      fold(inputs, tensor, op);
      if (op == c10d::ReduceOp::AVG) {
        divide_in_place(tensor, parts_.size);
      }
    }
    at += aligned(tensor.nbytes());
  }
  tell_the_rest(tensors, deadline);
}

// Each rank of a host sums its share over the host, then over the hosts, and tells its neighbours:
// piece by piece, so that shared memory works on one while the network is busy with another.
void HostCollectives::reduce_in_pieces(const std::string& call, const Tensors& tensors,
                                       const c10d::ReduceOp& op, Deadline deadline) const {
  const auto check = check_call(call, deadline);
  bool agreed = false;
  std::deque<Carried> pieces;
  const auto arrive_first = [&] {
    arrive(pieces.front(), op, deadline);
    pieces.pop_front();
  };
  for (const auto& tensor : tensors) {
    const at::Tensor flat = tensor.view({-1});
    const std::int64_t piece =
        std::max<std::int64_t>(1, kPieceBytes / static_cast<std::int64_t>(tensor.element_size()));
    for (std::int64_t at = 0; at < flat.numel(); at += piece) {
      const auto shares = shares_of(flat.narrow(0, at, std::min(piece, flat.numel() - at)));
      sum_inside(shares, op, deadline);
      if (!std::exchange(agreed, true)) {
        check.require(map_);
      }
      pieces.push_back(carry(shares, op, deadline));
      if (pieces.size() > kPiecesUnderWay) {
        arrive_first();
      }
    }
  }
  while (!pieces.empty()) {
    arrive_first();
  }
}

void HostCollectives::sum_inside(const Tensors& shares, const c10d::ReduceOp& op,
                                 Deadline deadline) const {
  const auto& mine = own(shares);
  if (!parts_.inside) {
    if (op == c10d::ReduceOp::PREMUL_SUM) {
      mine.mul_(shm_fold(op, mine, "all_reduce").factor);
    }
    return;
  }
  Tensors outputs{mine};
  std::vector<Tensors> inputs{shares};
  c10d::ReduceScatterOptions options;
  options.reduceOp = op == c10d::ReduceOp::AVG ? between_hosts(op) : op;
  options.timeout = deadline.as_timeout();
  parts_.inside->reduce_scatter(outputs, inputs, options)->wait();
}

HostCollectives::Carried HostCollectives::carry(const Tensors& shares, const c10d::ReduceOp& op,
                                                Deadline deadline) const {
  Carried carried{.shares = shares, .sent = {}, .gathered = {}, .work = nullptr};
  const auto& mine = own(shares);
  if (!parts_.lane || mine.numel() == 0) {
    return carried;
  }
  if (!gloo_reduces(mine.scalar_type(), op)) {
    carried.sent = as_bytes(mine);
    carried.gathered = at::empty({map_.hosts() * carried.sent.numel()}, at::kByte);
    c10d::AllgatherOptions options;
    options.timeout = deadline.as_timeout();
    carried.work =
        waiter_.remember(parts_.lane->_allgather_base(carried.gathered, carried.sent, options));
    return carried;
  }
  carried.sent = mine.is_complex() ? at::view_as_real(mine) : mine;
  Tensors tensors{carried.sent};
  c10d::AllreduceOptions options;
  options.reduceOp = between_hosts(op);
  options.timeout = deadline.as_timeout();
  carried.work = waiter_.remember(parts_.lane->allreduce(tensors, options));
  return carried;
}

void HostCollectives::arrive(const Carried& carried, const c10d::ReduceOp& op,
                             Deadline deadline) const {
  if (carried.work) {
    waiter_.wait(*carried.work);
    const auto& mine = own(carried.shares);
    if (carried.gathered.defined()) {
      std::vector<const std::byte*> inputs;
      for (int host = 0; host < map_.hosts(); ++host) {
        inputs.push_back(static_cast<const std::byte*>(carried.gathered.const_data_ptr()) +
                         static_cast<std::size_t>(host) * mine.nbytes());
      }
      fold(inputs, mine, op);
    }
    if (op == c10d::ReduceOp::AVG) {
      divide_in_place(mine, parts_.size);
    }
  }
  gather_inside(carried.shares, deadline);
}

}  // namespace lockstep::comm
