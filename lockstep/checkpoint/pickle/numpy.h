// Numbers of numpy in a pickle: what numpy.dtype() and its scalar() are called with.
#pragma once

#include "lockstep/checkpoint/pickle/nodes.h"
#include "lockstep/checkpoint/pickle/reader.h"

namespace lockstep::checkpoint {

// Both fail through `cursor` if the type is not read, or the arguments are not numpy's.
NodeId numpy_type(Nodes& nodes, const Arguments& arguments, const Cursor& cursor);
NodeId numpy_scalar(Nodes& nodes, const Arguments& arguments, const Cursor& cursor);

}  // namespace lockstep::checkpoint
