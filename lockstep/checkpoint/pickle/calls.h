// What stands for the functions that a pickle asks Python to call.
#pragma once

#include "lockstep/checkpoint/pickle/nodes.h"
#include "lockstep/checkpoint/pickle/reader.h"

namespace lockstep::checkpoint {

// The result of `function(*arguments)`. Fails through `cursor` if the function is no known symbol,
// or its arguments are not those that torch.save writes.
NodeId call(Nodes& nodes, NodeId function, NodeId arguments, const Cursor& cursor);

// cls.__new__(cls, *arguments): a Namespace is the only one.
NodeId make_object(Nodes& nodes, NodeId cls, NodeId arguments, const Cursor& cursor);

// object.__setstate__(state): the attributes of a Namespace; those of a dictionary are dropped.
void set_state(Nodes& nodes, NodeId object, NodeId state, const Cursor& cursor);

// What a pickle names by a tuple of "storage", class, key, location and number of elements.
NodeId make_storage(Nodes& nodes, NodeId id, const FindStorage& find_storage, const Cursor& cursor);

}  // namespace lockstep::checkpoint
