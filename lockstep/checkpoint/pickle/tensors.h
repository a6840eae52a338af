// Tensors in a pickle: what torch's functions that rebuild one are called with.
#pragma once

#include "lockstep/checkpoint/pickle/nodes.h"
#include "lockstep/checkpoint/pickle/reader.h"

namespace lockstep::checkpoint {

// `function` is one of the kRebuild symbols. A sparse, quantized or meta tensor becomes an
// OtherTensor. Fails through `cursor` if the arguments are not those that torch.save writes.
NodeId rebuild_tensor(Nodes& nodes, Symbol function, const Arguments& arguments,
                      const Cursor& cursor);

}  // namespace lockstep::checkpoint
