// Keeps LibTorch's operators in the thread that calls them.
#pragma once

namespace lockstep::data {

// For the calling thread alone, as torch.set_num_threads(1) in a worker of Python's loader: workers
// that each start as many threads as there are cores are slower than one. Other threads keep their
// number, unlike with at::set_num_threads(), which threads to come take over.
void use_one_thread();

}  // namespace lockstep::data
