// How a wrapper holds a module: by a torch::nn holder, by a shared pointer, or as the module
// itself, which must then outlive the wrapper.
#pragma once

#include <torch/nn/module.h>

#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "lockstep/base/error.h"

namespace lockstep::parallel {

template <class Module>
std::shared_ptr<Module> pointer_to(const std::shared_ptr<Module>& module) {
  return module;
}
template <class Holder>
  requires requires(const Holder& holder) { holder.ptr(); }
auto pointer_to(const Holder& holder) {
  return holder.ptr();
}
template <class Module>
  requires std::is_base_of_v<torch::nn::Module, Module>
std::shared_ptr<Module> pointer_to(Module& module) {
  return {std::shared_ptr<void>(), &module};
}

// `wrapper` is named in the error.
template <class Pointer>
Pointer not_null(Pointer module, const char* wrapper) {
  if (!module) {
    throw UsageError(std::string(wrapper) + ": the pointer to the module is null");
  }
  return module;
}

template <class Held>
using ModuleOf = typename decltype(pointer_to(std::declval<Held&>()))::element_type;

}  // namespace lockstep::parallel
