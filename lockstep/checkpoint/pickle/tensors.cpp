#include "lockstep/checkpoint/pickle/tensors.h"

namespace lockstep::checkpoint {
namespace {

constexpr std::size_t kMostDimensions = 64;

// What torch notes beside a tensor: that its elements are conjugates or negatives of the bytes.
void set_bits(const Nodes& nodes, NodeId bits, Tensor& tensor, const Cursor& cursor) {
  const Node& node = nodes[bits];
  if (node.kind == NodeKind::kPlain && node.plain.is_none()) {
    return;
  }
  const bool is_complex = tensor.dtype == DType::kComplex32 || tensor.dtype == DType::kComplex64 ||
                          tensor.dtype == DType::kComplex128;
  bool is_known = node.kind == NodeKind::kDict;
  for (std::size_t i = 0; is_known && i + 1 < node.items.size(); i += 2) {
    const auto* name = nodes.get_if<std::string>(node.items[i]);
    const auto* is_set = nodes.get_if<bool>(node.items[i + 1]);
    const bool is_conj = name != nullptr && *name == "conj" && is_complex;
    const bool is_neg = name != nullptr && *name == "neg";
    is_known = is_set != nullptr && *is_set && (is_conj || is_neg);
    tensor.is_conj = tensor.is_conj || is_conj;
    tensor.is_neg = tensor.is_neg || is_neg;
  }
  if (!is_known) {
    cursor.fail(
        "has a tensor with something else noted than that it is negative, or complex and the "
        "conjugate of its bytes; save tensor.clone()");
  }
}

NodeId rebuild_dense(Nodes& nodes, const Arguments& arguments, bool typed, const Cursor& cursor) {
  const std::size_t least = typed ? 7 : 6;
  if (arguments.size() < least || arguments.size() > least + 1 ||
      nodes[arguments[0]].kind != NodeKind::kStorage) {
    cursor.fail("has a tensor without a storage, or with too few or too many parts");
  }
  const Node& storage = nodes[arguments[0]];
  const auto* offset = nodes.get_if<std::int64_t>(arguments[1]);
  auto sizes = nodes.numbers(arguments[2]);
  auto strides = nodes.numbers(arguments[3]);
  const auto* requires_grad = nodes.get_if<bool>(arguments[4]);
  auto dtype = storage.dtype;
  if (typed) {
    const Node& type = nodes[arguments[6]];
    dtype = type.kind == NodeKind::kSymbol && type.symbol->symbol == Symbol::kDType
                ? type.symbol->dtype
                : std::nullopt;
  }
  if (offset == nullptr || !sizes || !strides || requires_grad == nullptr || !dtype ||
      typed == storage.dtype.has_value() || sizes->size() > kMostDimensions) {
    cursor.fail("has a tensor whose offset, sizes, strides or type are none");
  }
  Tensor tensor{*dtype,  std::move(*sizes), std::move(*strides),
                *offset, *requires_grad,    storage.storage};
  const std::string fault = extent_fault(tensor);
  if (!fault.empty()) {
    cursor.fail("has a tensor that " + fault);
  }
  if (arguments.size() > least) {
    set_bits(nodes, arguments[least], tensor, cursor);
  }
  return nodes.add(Value(std::move(tensor)));
}

NodeId rebuild_parameter(Nodes& nodes, const Arguments& arguments, const Cursor& cursor) {
  const auto* data = arguments.empty() ? nullptr : nodes.get_if<Tensor>(arguments[0]);
  const auto* requires_grad = arguments.size() < 2 ? nullptr : nodes.get_if<bool>(arguments[1]);
  if (data == nullptr || requires_grad == nullptr) {
    cursor.fail("has a parameter that is no tensor");
  }
  Tensor tensor = *data;
  tensor.requires_grad = *requires_grad;
  return nodes.add(Value(std::move(tensor)));
}

// (function, class, arguments, attributes): the attributes are left out. The function may not be
// this one again: torch does not write that, and a pickle could nest it without end.
NodeId rebuild_from_type(Nodes& nodes, const Arguments& arguments, const Cursor& cursor) {
  const auto symbol = [&](std::size_t i) -> std::optional<Symbol> {
    const bool is_symbol = arguments.size() == 4 && nodes[arguments[i]].kind == NodeKind::kSymbol;
    return is_symbol ? std::optional(nodes[arguments[i]].symbol->symbol) : std::nullopt;
  };
  const auto function = symbol(0);
  if (!function || function == Symbol::kRebuildFromType || symbol(1) != Symbol::kTensorClass ||
      nodes[arguments[2]].kind != NodeKind::kTuple) {
    cursor.fail("has a tensor of a class that is neither torch.Tensor nor Parameter");
  }
  return rebuild_tensor(nodes, *function, Arguments(nodes[arguments[2]].items), cursor);
}

NodeId other_tensor(Nodes& nodes, const char* kind, const char* advice) {
  return nodes.add(Value(OtherTensor{kind, advice}));
}

}  // namespace

NodeId rebuild_tensor(Nodes& nodes, Symbol function, const Arguments& arguments,
                      const Cursor& cursor) {
  switch (function) {
    case Symbol::kRebuildTensor:
      return rebuild_dense(nodes, arguments, /*typed=*/false, cursor);
    case Symbol::kRebuildTypedTensor:
      return rebuild_dense(nodes, arguments, /*typed=*/true, cursor);
    case Symbol::kRebuildParameter:
      return rebuild_parameter(nodes, arguments, cursor);
    case Symbol::kRebuildFromType:
      return rebuild_from_type(nodes, arguments, cursor);
    case Symbol::kRebuildSparse:
      return other_tensor(nodes, "sparse", "tensor.to_dense()");
    case Symbol::kRebuildQuantized:
      return other_tensor(nodes, "quantized", "tensor.dequantize()");
    case Symbol::kRebuildMeta:
      return other_tensor(nodes, "meta", "the tensor from a device where it has contents");
    default:
      cursor.fail("makes a tensor with a function that is not torch's");
  }
}

}  // namespace lockstep::checkpoint
