#include "lockstep/comm/peer_error.h"

#include "lockstep/base/error.h"
#include "lockstep/comm/library_errors.h"

namespace lockstep::comm {

void rethrow_as_peer_error(const std::string& what) {
  try {
    throw;
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    const std::string text = what + ": " + words_of(error);
    switch (fault_of(error)) {
      case Fault::kArguments:
        throw UsageError(text);
      case Fault::kLate:
      case Fault::kSilent:
        throw PeerError(
            text + "; a rank is late or left: see the logs of the others, or raise the timeout",
            PeerError::Cause::kLate);
      default:
        throw PeerError(text +
                        "; a rank ended or its connection broke: see the logs of the others");
    }
  }
}

}  // namespace lockstep::comm
