// Just enough of Gloo's names to read c10d/ProcessGroupGloo.hpp.
//
// LibTorch contains Gloo but ships none of its headers. Nothing of it but an exception is
// constructed or derived from by us, so no layout or vtable of Gloo's is
// emitted from these lines; only the order of Store's virtual functions and the
// mangled names matter, and tests/comm/backends/gloo/backend_test.cpp shows that they
// fit the LibTorch in use. Checked with torch 2.11 and 2.15.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace gloo {

struct Exception : std::runtime_error {
  using std::runtime_error::runtime_error;
};
// A connection broke, or a wait was over.
struct IoException : Exception {
  using Exception::Exception;
};

class Context {
 public:
  // NOLINTNEXTLINE(readability-identifier-naming): Gloo's name.
  void setTimeout(std::chrono::milliseconds timeout);
};

namespace rendezvous {

class Store {
 public:
  virtual ~Store();
  virtual void set(const std::string& key, const std::vector<char>& data) = 0;
  virtual std::vector<char> get(const std::string& key) = 0;
  virtual void wait(const std::vector<std::string>& keys) = 0;
  virtual void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout);
};

}  // namespace rendezvous

namespace transport {

class Device;
class UnboundBuffer {
 public:
  virtual ~UnboundBuffer() = 0;
};

}  // namespace transport
}  // namespace gloo
