// The hooks of torch.distributed.algorithms.ddp_comm_hooks.default_hooks and debugging_hooks, with
// the same results bit for bit.
//
//   ddp.register_comm_hook(lockstep::bf16_compress_hook(world));
#pragma once

#include "lockstep/comm/group.h"
#include "lockstep/parallel/hooks/comm_hook.h"

namespace lockstep {

// Divides, then sums: the average.
CommHook allreduce_hook(const Group& group);

// The same in half precision, so half the bytes travel. Values beyond 65,504 become infinite in
// fp16; bf16 keeps the range and loses digits.
CommHook fp16_compress_hook(const Group& group);
CommHook bf16_compress_hook(const Group& group);

// Another hook, which gets a buffer in half precision.
CommHook fp16_compress_wrapper(CommHook hook);
CommHook bf16_compress_wrapper(CommHook hook);

// Gradients stay on their rank: to measure what communication costs.
CommHook noop_hook();

}  // namespace lockstep
