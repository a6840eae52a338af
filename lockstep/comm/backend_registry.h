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
  std::chrono::milliseconds timeout{};          // Of each collective.
  std::chrono::milliseconds connect_timeout{};  // What is left of the time to form the group.
  // Network interfaces to use, best first; empty lets the backend choose.
  std::vector<std::string> interfaces;
  // Whether a transport that connects pairs of ranks does so now or as they need each other. Gloo
  // alone listens to it.
  enum class Connect { kAtOnce, kWhenNeeded };
  Connect connect = Connect::kAtOnce;
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

  // Named with that device, as "cuda:shm", a backend that was added serves it, too; not by its name
  // alone.
  void allow(const std::string& name, c10::DeviceType device);

  // "gloo" or "cpu:gloo,cuda:nccl", as device and name. Throws UsageError that lists the
  // names there are for one that is unknown, and says what one needs that was not built in.
  [[nodiscard]] std::vector<std::pair<c10::DeviceType, std::string>> parse(
      const std::string& backends) const;

  [[nodiscard]] c10::intrusive_ptr<c10d::Backend> make(const std::string& name,
                                                       const BackendRequest& request) const;

  [[nodiscard]] const BackendFactory& factory(const std::string& name) const {
    return find(name).factory;
  }

  [[nodiscard]] const Capabilities& capabilities(const std::string& name) const {
    return find(name).capabilities;
  }

  // What a group uses that names no backend: lockstep, and nccl beside it where GPUs are seen.
  [[nodiscard]] std::string default_backends() const;

 private:
  struct Entry {
    std::vector<c10::DeviceType> devices;
    std::vector<c10::DeviceType> if_named;  // Beside these.
    BackendFactory factory;
    Capabilities capabilities;
  };
  const Entry& find(const std::string& name) const;

  std::map<std::string, Entry> entries_;
};

// Each registers itself where it was compiled in; else it does nothing.
void register_gloo(BackendRegistry& registry);
void register_nccl(BackendRegistry& registry);
void register_mpi(BackendRegistry& registry);
void register_shm(BackendRegistry& registry);
void register_lockstep(BackendRegistry& registry);  // After gloo and shm.

}  // namespace lockstep
