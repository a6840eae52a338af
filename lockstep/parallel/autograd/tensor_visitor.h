// Finds the tensors in what goes into a module's forward and in what comes out.
//
// Tensors, and vectors, arrays, tuples, pairs, optionals and maps of them, at any depth, are known.
// For a struct of your own, write beside it, in its namespace:
//
//   void visit_tensors(Output& output, const lockstep::TensorVisitor& visit) {
//     visit(output.logits);
//     visit(output.features);
//   }
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <concepts>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

namespace lockstep {

using TensorVisitor = std::function<void(at::Tensor& tensor)>;

namespace parallel {

template <class Value>
concept MappedByUser =
    requires(Value& value, const TensorVisitor& visit) { visit_tensors(value, visit); };

template <class Value>
concept WithoutTensors = std::is_arithmetic_v<Value> || std::is_enum_v<Value> ||
                         std::same_as<Value, std::string> || std::same_as<Value, std::monostate>;

template <class Value>
concept Dictionary = requires(Value& value) {
  typename Value::key_type;
  typename Value::mapped_type;
  value.begin();
};

// A sequence whose elements can be replaced, which excludes at::TensorList.
template <class Value>
concept Sequence = !Dictionary<Value> && requires(Value& value) {
  typename Value::value_type;
  value.end();
  requires std::is_lvalue_reference_v<decltype(*value.begin())>;
  requires !std::is_const_v<std::remove_reference_t<decltype(*value.begin())>>;
};

template <class Value>
concept TupleLike = !Sequence<Value> && requires { std::tuple_size<Value>::value; };

template <class Value>
struct IsOptional : std::false_type {};
template <class Value>
struct IsOptional<std::optional<Value>> : std::true_type {};

template <class Value>
constexpr bool is_visitable() {
  if constexpr (std::same_as<Value, at::Tensor> || MappedByUser<Value> || WithoutTensors<Value>) {
    return true;
  } else if constexpr (Dictionary<Value>) {
    return is_visitable<typename Value::mapped_type>();
  } else if constexpr (Sequence<Value> || IsOptional<Value>::value) {
    return is_visitable<typename Value::value_type>();
  } else if constexpr (TupleLike<Value>) {
    return []<std::size_t... I>(std::index_sequence<I...>) {
      return (is_visitable<std::remove_cvref_t<std::tuple_element_t<I, Value>>>() && ...);
    }(std::make_index_sequence<std::tuple_size_v<Value>>());
  } else {
    return false;
  }
}

template <class Value>
void visit(Value& value, const TensorVisitor& visitor) {
  static_assert(is_visitable<Value>(),
                "lockstep does not know the tensors in this type: beside it, write "
                "void visit_tensors(YourType&, const lockstep::TensorVisitor&)");
  if constexpr (std::same_as<Value, at::Tensor>) {
    visitor(value);
  } else if constexpr (MappedByUser<Value>) {
    visit_tensors(value, visitor);
  } else if constexpr (Dictionary<Value>) {
    for (auto& [key, item] : value) {
      visit(item, visitor);
    }
  } else if constexpr (Sequence<Value>) {
    if constexpr (!WithoutTensors<typename Value::value_type>) {
      for (auto& item : value) {
        visit(item, visitor);
      }
    }
  } else if constexpr (TupleLike<Value>) {
    std::apply([&](auto&... items) { (visit(items, visitor), ...); }, value);
  } else if constexpr (IsOptional<Value>::value) {
    if (value) {
      visit(*value, visitor);
    }
  }
}

}  // namespace parallel
}  // namespace lockstep
