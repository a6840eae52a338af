// What a communication hook threw, on its way out of the reducer.
#pragma once

#include <exception>
#include <stdexcept>
#include <string>
#include <utility>

namespace lockstep::parallel {

// Carries it through the reducer, which takes errors that it does not know for errors of a peer.
// StepErrors tells the other ranks and throws what the hook threw, or a UsageError if that is no
// std::exception.
class HookError : public std::runtime_error {
 public:
  HookError(const std::string& text, std::exception_ptr cause)
      : std::runtime_error("the communication hook threw: " + text), cause_(std::move(cause)) {}
  [[nodiscard]] const std::exception_ptr& cause() const { return cause_; }

 private:
  std::exception_ptr cause_;
};

}  // namespace lockstep::parallel
