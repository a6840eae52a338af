#include "lockstep/checkpoint/pickle/nodes.h"

#include <unordered_set>

namespace lockstep::checkpoint {
namespace {

constexpr int kDeepest = 100;

// What it holds beside itself.
std::uint64_t cost_of(const Value& plain) {
  if (const auto* text = plain.get_if<std::string>()) {
    return text->size();
  }
  if (const auto* bytes = plain.get_if<Bytes>()) {
    return bytes->content.size();
  }
  if (const auto* tensor = plain.get_if<Tensor>()) {
    return (tensor->sizes.size() + tensor->strides.size()) * sizeof(std::int64_t);
  }
  if (const auto* counter = plain.get_if<Counter>()) {
    return counter->counts.size() * sizeof(counter->counts[0]);
  }
  if (const auto* other = plain.get_if<Other>()) {
    return other->type.size() + other->text.size();
  }
  if (const auto* tensor = plain.get_if<OtherTensor>()) {
    return tensor->kind.size() + tensor->advice.size();
  }
  return 0;
}

// Nothing for a key that cannot be compared.
std::optional<std::string> identity(const Value& key) {
  if (const auto* text = key.get_if<std::string>()) {
    return "'" + *text;
  }
  if (const auto* number = key.get_if<std::int64_t>()) {
    return std::to_string(*number);
  }
  return std::nullopt;
}

}  // namespace

NodeId Nodes::add(Node node) {
  charge(sizeof(Node) + node.items.size() * sizeof(NodeId) + cost_of(node.plain));
  nodes_.push_back(std::move(node));
  return static_cast<NodeId>(nodes_.size() - 1);
}

NodeId Nodes::add(Value plain) {
  Node node;
  node.plain = std::move(plain);
  return add(std::move(node));
}

NodeId Nodes::add(NodeKind kind, std::vector<NodeId> items) {
  Node node;
  node.kind = kind;
  node.items = std::move(items);
  return add(std::move(node));
}

std::optional<std::vector<std::int64_t>> Nodes::numbers(NodeId id) const {
  if (nodes_[id].kind != NodeKind::kTuple) {
    return std::nullopt;
  }
  std::vector<std::int64_t> numbers;
  for (const NodeId item : nodes_[id].items) {
    const auto* number = get_if<std::int64_t>(item);
    if (number == nullptr) {
      return std::nullopt;
    }
    numbers.push_back(*number);
  }
  return numbers;
}

void Nodes::Walk::charge(std::uint64_t bytes) {
  if (bytes > budget) {
    cursor.fail("names its parts so often that they would not fit in memory");
  }
  budget -= bytes;
}

Value Nodes::tree(NodeId root, const Cursor& cursor, std::uint64_t budget) const {
  Walk walk{cursor, budget};
  return tree(root, walk, 0);
}

Value Nodes::tree(NodeId id, Walk& walk, int depth) const {
  const Node& node = nodes_[id];
  if (depth > kDeepest) {
    walk.cursor.fail("is nested deeper than " + std::to_string(kDeepest));
  }
  walk.charge(sizeof(Value) + cost_of(node.plain));
  if (node.kind == NodeKind::kDict) {
    Dict dict;
    dict.reserve(node.items.size() / 2);
    std::unordered_set<std::string> keys;
    for (std::size_t i = 0; i + 1 < node.items.size(); i += 2) {
      Value key = tree(node.items[i], walk, depth + 1);
      const auto name = identity(key);
      walk.charge(name ? 2 * sizeof(std::string) + name->size() : 0);
      if (name && !keys.insert(*name).second) {
        const bool is_text = name->starts_with('\'');
        walk.cursor.fail("has the key " + *name + (is_text ? "'" : "") + " twice in a dictionary");
      }
      dict.push_back({std::move(key), tree(node.items[i + 1], walk, depth + 1)});
    }
    return dict;
  }
  if (node.kind == NodeKind::kList || node.kind == NodeKind::kTuple) {
    List list;
    list.reserve(node.items.size());
    for (const NodeId item : node.items) {
      list.push_back(tree(item, walk, depth + 1));
    }
    return node.kind == NodeKind::kList ? Value(std::move(list)) : Value(Tuple{std::move(list)});
  }
  if (node.kind == NodeKind::kSymbol && node.symbol->symbol == Symbol::kDType) {
    return Other{"torch.dtype", std::string(info(*node.symbol->dtype).name)};
  }
  if (node.kind != NodeKind::kPlain) {
    walk.cursor.fail("ends with a symbol or a storage where a value is expected");
  }
  return node.plain;
}

}  // namespace lockstep::checkpoint
