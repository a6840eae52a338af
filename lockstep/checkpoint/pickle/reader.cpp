#include "lockstep/checkpoint/pickle/reader.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <unordered_map>

#include "lockstep/checkpoint/cursor.h"
#include "lockstep/checkpoint/pickle/calls.h"
#include "lockstep/checkpoint/pickle/nodes.h"
#include "lockstep/checkpoint/pickle/symbols.h"

namespace lockstep::checkpoint {
namespace {

// A network of 10,000 tensors, with Adam's state, has 8 MB and half a million nodes.
constexpr std::size_t kMostBytes = std::size_t{64} << 20;
// The memory for nodes and tree: 16 MiB, and 512 bytes for each of the pickle, because an opcode of
// one byte makes a node and a value.
constexpr std::uint64_t kMostMemory = std::uint64_t{1} << 30;
constexpr std::uint64_t kMemoryPerByte = 512;
static_assert(sizeof(Node) + sizeof(Value) + 2 * sizeof(std::string) < kMemoryPerByte);

std::uint64_t memory_for(std::size_t pickle_bytes) {
  return std::min(kMemoryPerByte * pickle_bytes + (1 << 24), kMostMemory);
}

class Machine {
 public:
  Machine(Cursor cursor, const FindStorage& find_storage)
      : cursor_(std::move(cursor)),
        find_storage_(find_storage),
        budget_(memory_for(cursor_.left())) {}

  Value run();

 private:
  bool push_plain(char opcode);
  bool run_container(char opcode);
  bool run_memo(char opcode);
  bool run_call(char opcode);

  void push(NodeId id) { stack_.push_back(id); }
  NodeId pop();
  NodeId top();
  std::vector<NodeId> pop_mark();
  void push_tuple(std::size_t count);
  void push_symbol();
  Value long_integer();
  void extend(NodeKind kind, const std::vector<NodeId>& items);

  Cursor cursor_;
  const FindStorage& find_storage_;
  std::uint64_t budget_;
  Nodes nodes_;
  std::vector<NodeId> stack_;
  std::vector<std::size_t> marks_;  // Heights of the stack.
  std::unordered_map<std::uint64_t, NodeId> memo_;
};

// What was pushed before a mark belongs to the outer level.
NodeId Machine::pop() {
  const NodeId id = top();
  stack_.pop_back();
  return id;
}

NodeId Machine::top() {
  if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) {
    cursor_.fail("uses a value that is not there");
  }
  return stack_.back();
}

std::vector<NodeId> Machine::pop_mark() {
  if (marks_.empty()) {
    cursor_.fail("uses a mark that is not there");
  }
  const auto first = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
  std::vector<NodeId> items(first, stack_.end());
  stack_.erase(first, stack_.end());
  marks_.pop_back();
  return items;
}

void Machine::push_tuple(std::size_t count) {
  std::vector<NodeId> items(count);
  for (std::size_t i = count; i-- > 0;) {
    items[i] = pop();
  }
  push(nodes_.add(NodeKind::kTuple, std::move(items)));
}

Value Machine::long_integer() {
  const auto bytes = cursor_.take(cursor_.number(1, "a length"), "an integer");
  if (bytes.size() > 8) {
    return Other{"int", "of " + std::to_string(bytes.size()) + " bytes"};  // Shown, not used.
  }
  std::uint64_t number = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    number |= std::to_integer<std::uint64_t>(bytes[i]) << (8 * i);
  }
  const std::size_t missing = 64 - 8 * bytes.size();
  if (missing > 0 && missing < 64) {  // The sign is in the last byte.
    return static_cast<std::int64_t>(number << missing) >> missing;
  }
  return static_cast<std::int64_t>(number);
}

bool Machine::push_plain(char opcode) {
  switch (opcode) {
    case 'N':
      push(nodes_.add(Value()));
      return true;
    case '\x88':
    case '\x89':
      push(nodes_.add(Value(opcode == '\x88')));
      return true;
    case 'J':
      push(nodes_.add(
          Value(std::int64_t{static_cast<std::int32_t>(cursor_.number(4, "an integer"))})));
      return true;
    case 'K':
    case 'M':
      push(nodes_.add(
          Value(static_cast<std::int64_t>(cursor_.number(opcode == 'K' ? 1 : 2, "an integer")))));
      return true;
    case '\x8a':
      push(nodes_.add(long_integer()));
      return true;
    case 'G': {
      std::uint64_t bits = 0;
      for (const std::byte byte : cursor_.take(8, "a number")) {
        bits = bits << 8 | std::to_integer<std::uint64_t>(byte);
      }
      push(nodes_.add(Value(std::bit_cast<double>(bits))));
      return true;
    }
    case 'X': {
      const std::uint64_t length = cursor_.number(4, "a length");
      push(nodes_.add(Value(std::string(cursor_.text(length, "text")))));
      return true;
    }
    default:
      return false;
  }
}

void Machine::extend(NodeKind kind, const std::vector<NodeId>& items) {
  Node& container = nodes_[top()];
  if (container.kind != kind || (kind == NodeKind::kDict && items.size() % 2 != 0)) {
    cursor_.fail("adds items to something that is no list or dictionary, or a key without a value");
  }
  container.items.insert(container.items.end(), items.begin(), items.end());
  nodes_.charge(items.size() * sizeof(NodeId));
}

bool Machine::run_container(char opcode) {
  switch (opcode) {
    case '(':
      marks_.push_back(stack_.size());
      nodes_.charge(sizeof(std::size_t));
      return true;
    case ')':
      push(nodes_.add(NodeKind::kTuple));
      return true;
    case ']':
      push(nodes_.add(NodeKind::kList));
      return true;
    case '}':
      push(nodes_.add(NodeKind::kDict));
      return true;
    case 't':
      push(nodes_.add(NodeKind::kTuple, pop_mark()));
      return true;
    case '\x85':
    case '\x86':
    case '\x87':
      push_tuple(static_cast<unsigned char>(opcode) - 0x84U);
      return true;
    case 'a':
      extend(NodeKind::kList, {pop()});
      return true;
    case 'e':
      extend(NodeKind::kList, pop_mark());
      return true;
    case 's': {
      const NodeId value = pop();
      const NodeId key = pop();
      extend(NodeKind::kDict, {key, value});
      return true;
    }
    case 'u':
      extend(NodeKind::kDict, pop_mark());
      return true;
    default:
      return false;
  }
}

bool Machine::run_memo(char opcode) {
  const bool is_short = opcode == 'q' || opcode == 'h';
  if (!is_short && opcode != 'r' && opcode != 'j') {
    return false;
  }
  const std::uint64_t number = cursor_.number(is_short ? 1 : 4, "a number of the memo");
  if (opcode == 'q' || opcode == 'r') {
    memo_[number] = top();
    nodes_.charge(8 * sizeof(void*));  // An entry of a hash map.
    return true;
  }
  const auto found = memo_.find(number);
  if (found == memo_.end()) {
    cursor_.fail("uses number " + std::to_string(number) + " of the memo, which is not there");
  }
  push(found->second);
  return true;
}

void Machine::push_symbol() {
  const auto module = cursor_.line("a module");
  const auto name = cursor_.line("a name");
  Node node;
  node.kind = NodeKind::kSymbol;
  node.symbol = find_symbol(module, name);
  if (!node.symbol) {
    cursor_.fail("names '" + std::string(module.substr(0, 100)) + "." +
                 std::string(name.substr(0, 100)) +
                 "', which is not among the names that a checkpoint may use; nothing was executed");
  }
  push(nodes_.add(std::move(node)));
}

bool Machine::run_call(char opcode) {
  switch (opcode) {
    case 'c':
      push_symbol();
      return true;
    case 'Q':
      push(make_storage(nodes_, pop(), find_storage_, cursor_));
      return true;
    case 'R':
    case '\x81': {
      const NodeId arguments = pop();
      const NodeId function = pop();
      push(opcode == 'R' ? call(nodes_, function, arguments, cursor_)
                         : make_object(nodes_, function, arguments, cursor_));
      return true;
    }
    case 'b': {
      const NodeId state = pop();
      set_state(nodes_, top(), state, cursor_);
      return true;
    }
    default:
      return false;
  }
}

Value Machine::run() {
  if (cursor_.left() > kMostBytes) {
    cursor_.fail("has " + std::to_string(cursor_.left()) + " bytes, expected at most " +
                 std::to_string(kMostBytes));
  }
  // Protocol 3 has no opcode more that torch.load(weights_only=True) takes, either: one for bytes.
  const bool is_pickle = cursor_.text(1, "a pickle") == "\x80";
  const std::uint64_t protocol = is_pickle ? cursor_.number(1, "a protocol") : 0;
  if (protocol != 2 && protocol != 3) {
    cursor_.fail("is no pickle of protocol 2, which torch.save writes, or 3");
  }
  for (;;) {
    const char opcode = cursor_.text(1, "an opcode")[0];
    if (opcode == '.') {
      const NodeId root = pop();
      if (!stack_.empty() || cursor_.left() != 0) {
        cursor_.fail("has something left behind its end");
      }
      return nodes_.tree(root, cursor_, budget_ - nodes_.bytes());
    }
    if (!push_plain(opcode) && !run_container(opcode) && !run_memo(opcode) && !run_call(opcode)) {
      cursor_.fail("has the opcode " + std::to_string(static_cast<unsigned char>(opcode)) +
                   ", which torch.save does not write; nothing was executed");
    }
    if (nodes_.bytes() > budget_) {
      cursor_.fail("has values that need more than " + std::to_string(budget_) +
                   " bytes of memory");
    }
  }
}

}  // namespace

Value read_pickle(const std::string& name, std::span<const std::byte> pickle,
                  const FindStorage& find_storage, std::size_t first) {
  return Machine(Cursor(name, pickle, first), find_storage).run();
}

}  // namespace lockstep::checkpoint
