// The cases of the parity tests by name, each with what trains it.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/parity/run.h"

namespace lockstep::parity {

struct Result {
  Tensors left;
  DistributedDataParallelStats stats;
};

struct Entry {
  std::string name;
  Case the_case;
  std::function<Result(const Case&, const Group&, Tensors data)> run;
};

// Runs of what `make` makes: a holder or a shared pointer.
template <class Loss = LossOfOutputs, class Make>
auto training(Make make) {
  return [make](const Case& the_case, const Group& group, Tensors data) {
    const auto net = make();
    using Module = parallel::ModuleOf<decltype(net)>;
    Run<Module, Loss> run(the_case, group, std::move(data), net);
    auto left = run.train();
    return Result{std::move(left), run.stats()};
  };
}

class Table {
 public:
  void add(const std::string& name, Case the_case, const decltype(Entry::run)& run) {
    the_case.options.gradient_as_bucket_view = false;  // PyTorch's default.
    entries_.push_back({name, the_case, run});
  }
  // With gradients of their own and with views of the buckets.
  void add_both(const std::string& name, const Case& the_case, const decltype(Entry::run)& run) {
    add(name, the_case, run);
    add_default(name + "_views", the_case, run);
  }
  // As lockstep's users have it.
  void add_default(const std::string& name, const Case& the_case, const decltype(Entry::run)& run) {
    entries_.push_back({name, the_case, run});
  }
  [[nodiscard]] const std::vector<Entry>& entries() const { return entries_; }

 private:
  std::vector<Entry> entries_;
};

}  // namespace lockstep::parity
