#include "lockstep/checkpoint/pickle/symbols.h"

#include <array>

namespace lockstep::checkpoint {
namespace {

struct Named {
  std::string_view module;
  std::string_view name;
  Symbol symbol;
};

// Python 3 writes the names of Python 2 in protocol 2: __builtin__ is builtins.
constexpr std::array kSymbols = {
    Named{"collections", "OrderedDict", Symbol::kOrderedDict},
    Named{"collections", "Counter", Symbol::kCounter},
    Named{"argparse", "Namespace", Symbol::kNamespace},
    Named{"__builtin__", "set", Symbol::kSet},
    Named{"builtins", "set", Symbol::kSet},
    Named{"__builtin__", "bytearray", Symbol::kByteArray},
    Named{"builtins", "bytearray", Symbol::kByteArray},
    Named{"__builtin__", "complex", Symbol::kComplex},
    Named{"builtins", "complex", Symbol::kComplex},
    Named{"_codecs", "encode", Symbol::kEncode},
    Named{"torch", "Size", Symbol::kSize},
    Named{"torch", "device", Symbol::kDevice},
    Named{"torch._utils", "_rebuild_tensor_v2", Symbol::kRebuildTensor},
    Named{"torch._utils", "_rebuild_tensor_v3", Symbol::kRebuildTypedTensor},
    Named{"torch._utils", "_rebuild_parameter", Symbol::kRebuildParameter},
    Named{"torch._utils", "_rebuild_parameter_with_state", Symbol::kRebuildParameter},
    Named{"torch._tensor", "_rebuild_from_type_v2", Symbol::kRebuildFromType},
    Named{"torch._utils", "_rebuild_sparse_tensor", Symbol::kRebuildSparse},
    Named{"torch._utils", "_rebuild_qtensor", Symbol::kRebuildQuantized},
    Named{"torch._utils", "_rebuild_meta_tensor_no_storage", Symbol::kRebuildMeta},
    Named{"torch", "Tensor", Symbol::kTensorClass},
    Named{"torch.nn.parameter", "Parameter", Symbol::kTensorClass},
    Named{"torch.serialization", "_get_layout", Symbol::kLayout},
    Named{"torch", "per_tensor_affine", Symbol::kQuantization},
    Named{"torch", "per_tensor_symmetric", Symbol::kQuantization},
    Named{"torch", "per_channel_affine", Symbol::kQuantization},
    Named{"torch", "per_channel_symmetric", Symbol::kQuantization},
    Named{"torch", "per_channel_affine_float_qparams", Symbol::kQuantization},
    Named{"numpy", "dtype", Symbol::kNumpyDType},
    Named{"numpy.core.multiarray", "scalar", Symbol::kNumpyScalar},
    Named{"numpy._core.multiarray", "scalar", Symbol::kNumpyScalar},
};

// The bytes of a quantized tensor, which is not read itself.
constexpr std::array kQuantizedStorages = {
    std::pair{std::string_view("QInt8Storage"), DType::kInt8},
    std::pair{std::string_view("QUInt8Storage"), DType::kUInt8},
    std::pair{std::string_view("QInt32Storage"), DType::kInt32},
    std::pair{std::string_view("QUInt4x2Storage"), DType::kUInt8},
    std::pair{std::string_view("QUInt2x4Storage"), DType::kUInt8},
};

}  // namespace

std::optional<SymbolUse> find_symbol(std::string_view module, std::string_view name) {
  for (const Named& known : kSymbols) {
    if (known.module == module && known.name == name) {
      return SymbolUse{known.symbol, std::nullopt};
    }
  }
  if (module == "torch.storage" && name == "UntypedStorage") {
    return SymbolUse{Symbol::kStorage, std::nullopt};
  }
  if (module != "torch" || name.empty()) {
    return std::nullopt;
  }
  for (const DTypeInfo& dtype : dtypes()) {
    if (dtype.name == name) {
      return SymbolUse{Symbol::kDType, dtype.dtype};
    }
    if (dtype.storage == name) {
      return SymbolUse{Symbol::kStorage, dtype.dtype};
    }
  }
  for (const auto& [storage, dtype] : kQuantizedStorages) {
    if (storage == name) {
      return SymbolUse{Symbol::kStorage, dtype};
    }
  }
  return std::nullopt;
}

}  // namespace lockstep::checkpoint
