#include "lockstep/checkpoint/pickle/numpy.h"

#include <algorithm>
#include <cstring>

namespace lockstep::checkpoint {
namespace {

template <class T>
T number_from(const std::string& bytes) {
  T number;
  std::memcpy(&number, bytes.data(), sizeof number);
  return number;
}

}  // namespace

NodeId numpy_type(Nodes& nodes, const Arguments& arguments, const Cursor& cursor) {
  const auto* code = arguments.empty() ? nullptr : nodes.get_if<std::string>(arguments[0]);
  constexpr std::pair<std::string_view, DType> kTypes[] = {{"f8", DType::kFloat64},
                                                           {"f4", DType::kFloat32},
                                                           {"i8", DType::kInt64},
                                                           {"i4", DType::kInt32},
                                                           {"b1", DType::kBool}};
  const auto* found =
      code == nullptr
          ? std::end(kTypes)
          : std::ranges::find(kTypes, *code, [](const auto& type) { return type.first; });
  if (found == std::end(kTypes)) {
    cursor.fail("has a number of numpy of a type that is not read: save Python's int or float");
  }
  Node node;
  node.kind = NodeKind::kNumpyType;
  node.dtype = found->second;
  return nodes.add(std::move(node));
}

NodeId numpy_scalar(Nodes& nodes, const Arguments& arguments, const Cursor& cursor) {
  const auto* bytes = arguments.size() == 2 ? nodes.get_if<Bytes>(arguments[1]) : nullptr;
  if (bytes == nullptr || nodes[arguments[0]].kind != NodeKind::kNumpyType ||
      bytes->content.size() != info(*nodes[arguments[0]].dtype).bytes) {
    cursor.fail("has a number of numpy without its type or bytes");
  }
  switch (*nodes[arguments[0]].dtype) {
    case DType::kFloat64:
      return nodes.add(Value(number_from<double>(bytes->content)));
    case DType::kFloat32:
      return nodes.add(Value(static_cast<double>(number_from<float>(bytes->content))));
    case DType::kInt64:
      return nodes.add(Value(number_from<std::int64_t>(bytes->content)));
    case DType::kInt32:
      return nodes.add(Value(std::int64_t{number_from<std::int32_t>(bytes->content)}));
    default:
      return nodes.add(Value(bytes->content[0] != 0));
  }
}

}  // namespace lockstep::checkpoint
