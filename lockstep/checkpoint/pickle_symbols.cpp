#include "lockstep/checkpoint/pickle_symbols.h"

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
    Named{"numpy", "dtype", Symbol::kNumpyDType},
    Named{"numpy.core.multiarray", "scalar", Symbol::kNumpyScalar},
    Named{"numpy._core.multiarray", "scalar", Symbol::kNumpyScalar},
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
  return std::nullopt;
}

}  // namespace lockstep::checkpoint
