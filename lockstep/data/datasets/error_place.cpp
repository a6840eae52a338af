#include "lockstep/data/datasets/error_place.h"

namespace lockstep::data {
namespace {

// With what it nests, if anything, and not with itself as one more level.
[[noreturn]] void throw_again(const Error& error, const std::string& text) {
  const auto* outer = dynamic_cast<const std::nested_exception*>(&error);
  if (outer == nullptr || outer->nested_ptr() == nullptr) {
    throw Error(text);
  }
  try {
    outer->rethrow_nested();
  } catch (...) {
    std::throw_with_nested(Error(text));
  }
}

}  // namespace

void rethrow_with_place(const std::string& place) {
  try {
    throw;
  } catch (const UsageError& error) {
    throw UsageError(place + error.what());
  } catch (const IoError& error) {
    throw IoError(place + error.what());
  } catch (const PeerError& error) {
    throw PeerError(place + error.what(), error.cause());
  } catch (const Error& error) {
    throw_again(error, place + error.what());
  } catch (const std::exception& error) {
    std::throw_with_nested(Error(place + error.what()));
  } catch (...) {
    std::throw_with_nested(Error(place + "something was thrown that is no std::exception"));
  }
}

}  // namespace lockstep::data
