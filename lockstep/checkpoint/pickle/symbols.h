// The names that a pickle may use. None is looked up, imported or called: each stands for something
// that the reader builds itself, and any other name is an error.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "lockstep/checkpoint/value.h"

namespace lockstep::checkpoint {

enum class Symbol : std::uint8_t {
  kOrderedDict,
  kCounter,
  kNamespace,
  kSet,
  kByteArray,
  kComplex,
  kEncode,  // How Python 3 writes bytes in protocol 2.
  kSize,
  kDevice,
  kDType,
  kStorage,  // One class for each type of element, or one for untyped bytes.
  kRebuildTensor,
  kRebuildTypedTensor,  // The type stands beside an untyped storage.
  kRebuildParameter,
  kRebuildFromType,  // A tensor with attributes: another of these functions, a class, its
                     // arguments.
  kRebuildSparse,
  kRebuildQuantized,
  kRebuildMeta,
  kTensorClass,
  kLayout,
  kQuantization,
  kNumpyDType,
  kNumpyScalar,
};

struct SymbolUse {
  Symbol symbol;
  std::optional<DType> dtype;  // For kDType and kStorage; none: untyped bytes.
};

// Nothing if a pickle may not say this.
std::optional<SymbolUse> find_symbol(std::string_view module, std::string_view name);

}  // namespace lockstep::checkpoint
