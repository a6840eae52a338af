#include "lockstep/checkpoint/pickle/calls.h"

#include <algorithm>

#include "lockstep/checkpoint/pickle/numpy.h"
#include "lockstep/checkpoint/pickle/tensors.h"

namespace lockstep::checkpoint {
namespace {

// Text whose characters are bytes: UTF-8 of two bytes at most each.
NodeId encode(Nodes& nodes, const Arguments& arguments, const Cursor& cursor) {
  const auto* text = arguments.size() == 2 ? nodes.get_if<std::string>(arguments[0]) : nullptr;
  const auto* encoding = arguments.size() == 2 ? nodes.get_if<std::string>(arguments[1]) : nullptr;
  if (text == nullptr || encoding == nullptr || *encoding != "latin1") {
    cursor.fail("encodes something else than text as latin1");
  }
  Bytes bytes;
  for (std::size_t i = 0; i < text->size(); ++i) {
    const auto byte = static_cast<unsigned char>((*text)[i]);
    if (byte < 0x80) {
      bytes.content += static_cast<char>(byte);
      continue;
    }
    const auto next = i + 1 < text->size() ? static_cast<unsigned char>((*text)[i + 1]) : 0;
    if ((byte != 0xC2 && byte != 0xC3) || (next & 0xC0) != 0x80) {
      cursor.fail("encodes a character that is not in latin1");
    }
    bytes.content += static_cast<char>(((byte & 3) << 6) | (next & 0x3F));
    ++i;
  }
  return nodes.add(Value(std::move(bytes)));
}

NodeId device(Nodes& nodes, const Arguments& arguments, const Cursor& cursor) {
  const auto* type = arguments.empty() ? nullptr : nodes.get_if<std::string>(arguments[0]);
  const auto* index = arguments.size() != 2 ? nullptr : nodes.get_if<std::int64_t>(arguments[1]);
  if (type == nullptr || arguments.size() > 2 || (arguments.size() == 2 && index == nullptr)) {
    cursor.fail("has a device without a name");
  }
  return nodes.add(
      Value(Other{"torch.device", *type + (index == nullptr ? "" : ":" + std::to_string(*index))}));
}

NodeId complex_number(Nodes& nodes, const Arguments& arguments, const Cursor& cursor) {
  const auto* real = arguments.size() == 2 ? nodes.get_if<double>(arguments[0]) : nullptr;
  const auto* imaginary = arguments.size() == 2 ? nodes.get_if<double>(arguments[1]) : nullptr;
  if (real == nullptr || imaginary == nullptr) {
    cursor.fail("has a complex number without two parts");
  }
  return nodes.add(
      Value(Other{"complex", std::to_string(*real) + " + " + std::to_string(*imaginary) + "j"}));
}

// OrderedDict(), set([...]), Size((...)), bytearray(b"..."): of nothing, or of one value that has
// the same items.
NodeId convert(Nodes& nodes, const Arguments& arguments, NodeKind from, NodeKind to,
               const Cursor& cursor) {
  if (arguments.empty()) {
    return nodes.add(to);
  }
  if (arguments.size() != 1 || nodes[arguments[0]].kind != from) {
    cursor.fail("makes a dictionary, set, size or tuple of something else");
  }
  return nodes.add(to, nodes[arguments[0]].items);
}

// A dictionary if it counts something else than numbers.
NodeId counter(Nodes& nodes, const Arguments& arguments, const Cursor& cursor) {
  const NodeId dict = convert(nodes, arguments, NodeKind::kDict, NodeKind::kDict, cursor);
  Counter counted;
  const auto& items = nodes[dict].items;
  for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
    const auto* number = nodes.get_if<std::int64_t>(items[i]);
    const auto* count = nodes.get_if<std::int64_t>(items[i + 1]);
    if (number == nullptr || count == nullptr) {
      return dict;
    }
    counted.counts.emplace_back(*number, *count);
  }
  auto numbers = counted.counts;
  std::ranges::sort(numbers);
  const auto same = [](const auto& a, const auto& b) { return a.first == b.first; };
  if (std::ranges::adjacent_find(numbers, same) != numbers.end()) {
    cursor.fail("counts a number twice");
  }
  return nodes.add(Value(std::move(counted)));
}

NodeId byte_array(Nodes& nodes, const Arguments& arguments, const Cursor& cursor) {
  if (arguments.empty()) {
    return nodes.add(Value(Bytes{}));
  }
  const auto* bytes = arguments.size() == 1 ? nodes.get_if<Bytes>(arguments[0]) : nullptr;
  if (bytes == nullptr) {
    cursor.fail("makes a bytearray of something else than bytes");
  }
  return nodes.add(Value(Bytes(*bytes)));
}

NodeId layout(Nodes& nodes, const Arguments& arguments, const Cursor& cursor) {
  const auto* name = arguments.size() == 1 ? nodes.get_if<std::string>(arguments[0]) : nullptr;
  if (name == nullptr) {
    cursor.fail("has a layout without a name");
  }
  return nodes.add(Value(Other{"torch.layout", *name}));
}

}  // namespace

NodeId call(Nodes& nodes, NodeId function, NodeId arguments, const Cursor& cursor) {
  if (nodes[function].kind != NodeKind::kSymbol || nodes[arguments].kind != NodeKind::kTuple) {
    cursor.fail("calls something that is no known function, or without a tuple");
  }
  const Arguments items = nodes[arguments].items;
  switch (nodes[function].symbol->symbol) {
    case Symbol::kCounter:
      return counter(nodes, items, cursor);
    case Symbol::kOrderedDict:
      return convert(nodes, items, NodeKind::kDict, NodeKind::kDict, cursor);
    case Symbol::kSet:
      return convert(nodes, items, NodeKind::kList, NodeKind::kList, cursor);
    case Symbol::kSize:
      return convert(nodes, items, NodeKind::kTuple, NodeKind::kTuple, cursor);
    case Symbol::kByteArray:
      return byte_array(nodes, items, cursor);
    case Symbol::kComplex:
      return complex_number(nodes, items, cursor);
    case Symbol::kEncode:
      return encode(nodes, items, cursor);
    case Symbol::kDevice:
      return device(nodes, items, cursor);
    case Symbol::kRebuildTensor:
    case Symbol::kRebuildTypedTensor:
    case Symbol::kRebuildParameter:
    case Symbol::kRebuildFromType:
    case Symbol::kRebuildSparse:
    case Symbol::kRebuildQuantized:
    case Symbol::kRebuildMeta:
      return rebuild_tensor(nodes, nodes[function].symbol->symbol, items, cursor);
    case Symbol::kLayout:
      return layout(nodes, items, cursor);
    case Symbol::kNumpyDType:
      return numpy_type(nodes, items, cursor);
    case Symbol::kNumpyScalar:
      return numpy_scalar(nodes, items, cursor);
    case Symbol::kNamespace:
    case Symbol::kDType:
    case Symbol::kStorage:
    case Symbol::kTensorClass:
    case Symbol::kQuantization:
      break;
  }
  cursor.fail("calls a class that cannot be called: a Namespace, a type, a tensor or a storage");
}

NodeId make_object(Nodes& nodes, NodeId cls, NodeId arguments, const Cursor& cursor) {
  if (nodes[cls].kind != NodeKind::kSymbol || nodes[cls].symbol->symbol != Symbol::kNamespace ||
      nodes[arguments].kind != NodeKind::kTuple || !nodes[arguments].items.empty()) {
    cursor.fail("makes an object of a class that is not argparse.Namespace");
  }
  const NodeId id = nodes.add(NodeKind::kDict);
  nodes[id].is_object = true;
  return id;
}

void set_state(Nodes& nodes, NodeId object, NodeId state, const Cursor& cursor) {
  Node& node = nodes[object];
  if (node.kind == NodeKind::kNumpyType && nodes[state].kind == NodeKind::kTuple &&
      nodes[state].items.size() > 1) {
    const auto* order = nodes.get_if<std::string>(nodes[state].items[1]);
    if (order != nullptr && (*order == "<" || *order == "|")) {
      return;
    }
    cursor.fail("has a number of numpy that is not little-endian");
  }
  if (node.kind != NodeKind::kDict || nodes[state].kind != NodeKind::kDict) {
    cursor.fail("sets attributes of something that has none");
  }
  if (node.is_object) {
    node.items = nodes[state].items;
    nodes.charge(node.items.size() * sizeof(NodeId));
  }
}

// ("storage", class, key, location, elements)
NodeId make_storage(Nodes& nodes, NodeId id, const FindStorage& find_storage,
                    const Cursor& cursor) {
  const auto items = nodes[id].items;
  const bool fits = nodes[id].kind == NodeKind::kTuple && items.size() == 5;
  const auto* tag = fits ? nodes.get_if<std::string>(items[0]) : nullptr;
  const auto* key = fits ? nodes.get_if<std::string>(items[2]) : nullptr;
  const auto* location = fits ? nodes.get_if<std::string>(items[3]) : nullptr;
  const auto* count = fits ? nodes.get_if<std::int64_t>(items[4]) : nullptr;
  if (tag == nullptr || *tag != "storage" || key == nullptr || location == nullptr ||
      count == nullptr || *count < 0 || nodes[items[1]].kind != NodeKind::kSymbol ||
      nodes[items[1]].symbol->symbol != Symbol::kStorage) {
    cursor.fail("names a storage in another way than torch.save");
  }
  const auto dtype = nodes[items[1]].symbol->dtype;
  const std::uint64_t size = dtype ? info(*dtype).bytes : 1;
  std::uint64_t bytes = 0;
  if (__builtin_mul_overflow(static_cast<std::uint64_t>(*count), size, &bytes)) {
    cursor.fail("has a storage of more bytes than a number can count");
  }
  Node node;
  node.kind = NodeKind::kStorage;
  node.dtype = dtype;
  node.storage = find_storage({*key, *location, bytes});
  return nodes.add(std::move(node));
}

}  // namespace lockstep::checkpoint
