#include "lockstep/launch/node/store_process.h"

#include <utility>

#include "lockstep/base/error.h"

namespace lockstep::launch {

int StoreProcess::open(const Endpoint& endpoint) {
  stop();
  listener_ = listen_on(endpoint);
  const int port = listener_.port;
  if (context_.store_program.empty()) {
    loop_.watch(listener_.fd.get(), POLLIN, [this] {
      loop_.forget(listener_.fd.get());
      throw IoError(
          "a worker asked for the job's store, but the program 'lockstep-store' is not beside "
          "'lockstep'; build or install lockstep with LibTorch");
    });
    return port;
  }
  ChildSpec spec;
  spec.path = context_.store_program;
  spec.arguments = {spec.path, "--listen-fd", std::to_string(listener_.fd.get())};
  spec.environment = context_.environment;
  spec.kept_fd = listener_.fd.get();
  spec.ended_by_us = true;  // Workers that still save their state need it.
  child_ = start_child(spec, *context_.signals);
  listener_ = {};
  return port;
}

void StoreProcess::stop() {
  if (listener_.fd) {
    loop_.forget(listener_.fd.get());
    listener_ = {};
  }
  if (child_.pid > 0) {
    // It holds nothing worth saving, and nobody waits for an answer any more.
    end_child(std::exchange(child_, {}));
  }
}

}  // namespace lockstep::launch
