// Backends by name: what init_process_group({.backend = ...}) can be asked for.
#pragma once

#include <c10/core/DeviceType.h>
#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/comm/capability.h"

namespace c10d {
class Backend;
class Store;
}  // namespace c10d

namespace lockstep {

struct BackendRequest {
  c10::intrusive_ptr<c10d::Store> store;  // Private to this backend and group.
  int rank = 0;
  int size = 1;
  std::chrono::milliseconds timeout{};          // For each collective.
  std::chrono::milliseconds connect_timeout{};  // What is left of the time to form the group.
  // Network interfaces to use, best first; empty lets the backend choose.
  std::vector<std::string> interfaces;
  std::string name = {};  // What the backend shall call itself; empty: its own name.
};

using BackendFactory = std::function<c10::intrusive_ptr<c10d::Backend>(const BackendRequest&)>;

class BackendRegistry {
 public:
  // gloo, shm, lockstep (shm inside a host, Gloo between), nccl where lockstep was built with CUDA,
  // and mpi where it was built with Open MPI.
  static BackendRegistry built_in();

  // A second registration of a name replaces the first.
  void add(const std::string& name, std::vector<c10::DeviceType> devices, BackendFactory factory,
           Capabilities capabilities = {});

  // Lets a backend that was added also serve this device, but only if the device is named:
  // "cuda:shm".
  void allow(const std::string& name, c10::DeviceType device);

  [[nodiscard]] bool has(const std::string& name) const { return entries_.contains(name); }

  // Parses "gloo" or "cpu:gloo,cuda:nccl" into devices and names. For an unknown name, throws
  // UsageError that lists the known ones; for one that was not built in, it says what is needed.
  [[nodiscard]] std::vector<std::pair<c10::DeviceType, std::string>> parse(
      const std::string& backends) const;

  // May be called again with the same store, once the backend before it was shut down.
  [[nodiscard]] c10::intrusive_ptr<c10d::Backend> make(const std::string& name,
                                                       const BackendRequest& request) const;

  [[nodiscard]] const BackendFactory& factory(const std::string& name) const {
    return find(name).factory;
  }

  [[nodiscard]] const Capabilities& capabilities(const std::string& name) const {
    return find(name).capabilities;
  }

  // What a group uses if it names no backend: lockstep, and also nccl if LibTorch sees GPUs.
  [[nodiscard]] std::string default_backends() const;

 private:
  struct Entry {
    std::vector<c10::DeviceType> devices;
    std::vector<c10::DeviceType> if_named;  // Further ones, used if the text names them.
    BackendFactory factory;
    Capabilities capabilities;
  };
  const Entry& find(const std::string& name) const;

  std::map<std::string, Entry> entries_;
};

// Each registers its backend if that was compiled in, else does nothing.
// A new backend is a folder in backends/ with a missing.cpp for machines without its library, a
// register_ function here, a call of it in built_in(), why it may be missing in find(), its sources
// in lockstep/comm/CMakeLists.txt, its library in cmake/ (as Mpi.cmake), an entry in ROOMS of
// cmake/check_layers.py, tests, and a row in docs/guides/process-groups.md; mpi/ is the model. A
// program's own backend needs none of this, but add().
void register_gloo(BackendRegistry& registry);
void register_nccl(BackendRegistry& registry);
void register_mpi(BackendRegistry& registry);
void register_shm(BackendRegistry& registry);
void register_lockstep(BackendRegistry& registry);  // After gloo and shm.

}  // namespace lockstep
