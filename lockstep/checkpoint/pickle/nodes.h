// What a pickle has made so far: nodes that name each other by number, so that a list that contains
// itself is neither a leak nor a trap.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "lockstep/checkpoint/cursor.h"
#include "lockstep/checkpoint/pickle/symbols.h"
#include "lockstep/checkpoint/value.h"

namespace lockstep::checkpoint {

using NodeId = std::uint32_t;
using Arguments = std::vector<NodeId>;

enum class NodeKind : std::uint8_t { kPlain, kList, kTuple, kDict, kSymbol, kStorage, kNumpyType };

struct Node {
  NodeKind kind = NodeKind::kPlain;
  Value plain;                // For kPlain.
  std::vector<NodeId> items;  // Lists and tuples: items; dictionaries: keys and values by turns.
  bool is_object = false;     // A dictionary that Python has as a Namespace.
  std::optional<SymbolUse> symbol;
  std::shared_ptr<const Storage> storage;
  std::optional<DType> dtype;  // The type of a storage's or numpy's elements.
};

class Nodes {
 public:
  NodeId add(Node node);
  NodeId add(Value plain);
  NodeId add(NodeKind kind, std::vector<NodeId> items = {});
  [[nodiscard]] Node& operator[](NodeId id) { return nodes_[id]; }
  [[nodiscard]] const Node& operator[](NodeId id) const { return nodes_[id]; }

  // The memory of the nodes and what they hold, so far.
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  // For what was added to a node, or is kept beside them.
  void charge(std::uint64_t bytes) { bytes_ += bytes; }

  // Null if the node is of another kind.
  template <class T>
  [[nodiscard]] const T* get_if(NodeId id) const {
    return nodes_[id].kind == NodeKind::kPlain ? nodes_[id].plain.get_if<T>() : nullptr;
  }
  // The numbers of a tuple; nothing if it is none, or has something else in it.
  [[nodiscard]] std::optional<std::vector<std::int64_t>> numbers(NodeId id) const;

  // As a tree. Fails through `cursor` if it is deeper than 100, has a dictionary with a key twice,
  // or needs more than `budget` bytes of memory (things that are named again and again).
  [[nodiscard]] Value tree(NodeId root, const Cursor& cursor, std::uint64_t budget) const;

 private:
  struct Walk {
    const Cursor& cursor;
    std::uint64_t budget;
    void charge(std::uint64_t bytes);
  };
  [[nodiscard]] Value tree(NodeId id, Walk& walk, int depth) const;

  std::vector<Node> nodes_;
  std::uint64_t bytes_ = 0;
};

}  // namespace lockstep::checkpoint
