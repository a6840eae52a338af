#include "lockstep/train/checkpoint/rng_state.h"

#include <ATen/Context.h>
#include <ATen/ops/empty.h>

#include <cstring>
#include <mutex>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/comm/group.h"

namespace lockstep {
namespace {

at::Tensor generator_state(at::Device device) {
  auto generator = at::globalContext().defaultGenerator(device);
  const std::lock_guard lock(generator.mutex());
  return generator.get_state();
}

void set_generator_state(at::Device device, const at::Tensor& state) {
  auto generator = at::globalContext().defaultGenerator(device);
  const std::lock_guard lock(generator.mutex());
  try {
    // A clone, because torch 2.15 misreads a view that does not begin where its storage does.
    generator.set_state(state.to(at::kByte).contiguous().clone());
  } catch (const c10::Error& error) {
    throw IoError("the state of a random generator on '" + device.str() + "' is " +
                  std::to_string(state.numel()) +
                  " bytes that are none: " + error.what_without_backtrace());
  }
}

std::string bytes_of(const at::Tensor& state) {
  return {static_cast<const char*>(state.const_data_ptr()), state.nbytes()};
}

// Nothing if a rank has none: some have a GPU and others do not.
std::vector<at::Tensor> gathered(const Group& group, const std::string& own) {
  std::vector<at::Tensor> states;
  for (const auto& bytes : group.all_gather_bytes(own)) {
    if (bytes.empty()) {
      return {};
    }
    states.push_back(at::empty({static_cast<std::int64_t>(bytes.size())}, at::kByte));
    std::memcpy(states.back().data_ptr(), bytes.data(), bytes.size());
  }
  return states;
}

bool has_state(const std::vector<at::Tensor>& states, int rank) {
  return rank >= 0 && static_cast<std::size_t>(rank) < states.size();
}

}  // namespace

RngState rng_state(at::Device device) {
  RngState state{.cpu = {generator_state(at::kCPU)}, .cuda = {}};
  if (device.is_cuda()) {
    state.cuda = {generator_state(device)};
  }
  return state;
}

RngState rng_state(const Group& group) {
  RngState own = rng_state(group.device());
  if (!group.is_distributed()) {
    return own;
  }
  return {.cpu = gathered(group, bytes_of(own.cpu.front())),
          .cuda = gathered(group, own.cuda.empty() ? "" : bytes_of(own.cuda.front()))};
}

bool set_rng_state(const RngState& state, const RngOwner& owner) {
  const bool on_gpu = owner.device.is_cuda();
  if (!has_state(state.cpu, owner.rank) || (on_gpu && !has_state(state.cuda, owner.rank))) {
    return false;
  }
  const auto rank = static_cast<std::size_t>(owner.rank);
  const auto before = generator_state(at::kCPU);
  set_generator_state(at::kCPU, state.cpu[rank]);
  if (on_gpu) {
    try {
      set_generator_state(owner.device, state.cuda[rank]);
    } catch (const IoError&) {
      set_generator_state(at::kCPU, before);
      throw;
    }
  }
  return true;
}

}  // namespace lockstep
