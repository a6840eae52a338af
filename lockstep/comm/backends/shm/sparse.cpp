#include "lockstep/comm/backends/shm/backend.h"
#include "lockstep/comm/backends/support/sparse_sum.h"

namespace lockstep::comm {

at::Tensor shm_sparse_sum(shm::Team& team, const at::Tensor& tensor, Deadline deadline) {
  return sparse_sum(team.size(), tensor,
                    {.all_gather =
                         [&](const std::vector<at::Tensor>& outputs, const at::Tensor& input) {
                           const auto results = packed(outputs, Packed::Use::kWrite);
                           shm::all_gather(team, outputs_of(results),
                                           Packed(input, Packed::Use::kRead).input(),
                                           shm_dtype(input.scalar_type()), deadline);
                           write_back(results);
                         },
                     .mismatch = [&](const std::string& words) { team.mismatch(words); }});
}

}  // namespace lockstep::comm
