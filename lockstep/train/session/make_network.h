// How a program brings a network of its own to the trainer: a function that makes it.
#pragma once

#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

#include "lockstep/models/network.h"
#include "lockstep/models/registry.h"
#include "lockstep/parallel/held_module.h"

namespace lockstep::train {

// Any function that returns a torch::nn holder or a shared pointer of a module with
// forward(Tensor), and takes models::ModelOptions, which tell what the data needs, or nothing.
class MakeNetwork {
 public:
  template <class Function>
    requires(!std::is_same_v<std::remove_cvref_t<Function>, MakeNetwork> &&
             (std::is_invocable_v<Function&, const models::ModelOptions&> ||
              std::is_invocable_v<Function&>))
  // NOLINTNEXTLINE(google-explicit-constructor): so that {{"mynet", make_mynet}} can be written.
  MakeNetwork(Function function)
      : make_([function = std::move(function)](const models::ModelOptions& options) {
          if constexpr (std::is_invocable_v<Function&, const models::ModelOptions&>) {
            return network_of(function(options));
          } else {
            return network_of(function());
          }
        }) {}

  std::shared_ptr<models::Network> operator()(const models::ModelOptions& options) const {
    return make_(options);
  }

 private:
  template <class Held>
  static std::shared_ptr<models::Network> network_of(const Held& held) {
    if constexpr (std::is_same_v<Held, std::shared_ptr<models::Network>>) {
      return held;
    } else {
      return std::make_shared<models::Network>(parallel::pointer_to(held));
    }
  }

  std::function<std::shared_ptr<models::Network>(const models::ModelOptions&)> make_;
};

}  // namespace lockstep::train
