#include "lockstep/checkpoint/describe.h"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <set>

#include "lockstep/base/text/printable.h"

namespace lockstep::checkpoint {
namespace {

constexpr std::size_t kLongest = 200;

std::string brief(std::string_view text) {
  return printable(text.substr(0, kLongest), "", "?") + (text.size() > kLongest ? "..." : "");
}

std::string size_text(std::uint64_t bytes) {
  char text[32];
  if (bytes < 1'000'000) {
    std::snprintf(text, sizeof text, "%.1f kB", static_cast<double>(bytes) / 1e3);
  } else {
    std::snprintf(text, sizeof text, "%.1f MB", static_cast<double>(bytes) / 1e6);
  }
  return text;
}

struct Total {
  std::uint64_t tensors = 0;
  std::int64_t elements = 0;
  std::set<const Storage*> storages;
};

const List* items_of(const Value& value) {
  const auto* tuple = value.get_if<Tuple>();
  return tuple != nullptr ? &tuple->items : value.get_if<List>();
}

void count(const Value& value, Total& total) {
  if (const auto* tensor = value.get_if<Tensor>()) {
    total.tensors += 1;
    if (__builtin_add_overflow(total.elements, count_elements(tensor->sizes).value_or(0),
                               &total.elements)) {  // One element may be shown 2^62 times.
      total.elements = std::numeric_limits<std::int64_t>::max();
    }
    total.storages.insert(tensor->storage.get());
  } else if (const auto* dict = value.get_if<Dict>()) {
    for (const Entry& entry : *dict) {
      count(entry.value, total);
    }
  } else if (const auto* items = items_of(value)) {
    for (const Value& item : *items) {
      count(item, total);
    }
  }
}

std::string summary(const Value& value, std::size_t entries) {
  Total total;
  count(value, total);
  std::string text = std::to_string(entries) + (entries == 1 ? " entry" : " entries");
  if (total.tensors > 0) {
    std::uint64_t bytes = 0;
    for (const Storage* storage : total.storages) {
      bytes += storage->bytes.size();
    }
    text += "; " + std::to_string(total.tensors) +
            (total.tensors == 1 ? " tensor, " : " tensors, ") + std::to_string(total.elements) +
            " elements, " + size_text(bytes);
  }
  return text;
}

std::string number_text(double number) {
  char text[32];
  std::snprintf(text, sizeof text, "%.17g", number);
  double shorter = 0;
  for (int digits = 1; digits < 17; ++digits) {
    char candidate[32];
    std::snprintf(candidate, sizeof candidate, "%.*g", digits, number);
    if (std::sscanf(candidate, "%lf", &shorter) == 1 && shorter == number) {
      return candidate;
    }
  }
  return text;
}

std::string scalar_text(const Value& value) {
  if (value.is_none()) {
    return "None";
  }
  if (const auto* flag = value.get_if<bool>()) {
    return *flag ? "True" : "False";
  }
  if (const auto* integer = value.get_if<std::int64_t>()) {
    return std::to_string(*integer);
  }
  if (const auto* number = value.get_if<double>()) {
    return number_text(*number);
  }
  if (const auto* text = value.get_if<std::string>()) {
    return "'" + brief(*text) + "'";
  }
  if (const auto* bytes = value.get_if<Bytes>()) {
    return std::to_string(bytes->content.size()) + " bytes";
  }
  if (const auto* counter = value.get_if<Counter>()) {
    std::string text = "counter {";
    for (const auto& [number, count] : counter->counts) {
      text +=
          (text.back() == '{' ? "" : ", ") + std::to_string(number) + ": " + std::to_string(count);
    }
    return text + "}";
  }
  if (const auto* other = value.get_if<Other>()) {
    return brief(other->type) + " " + brief(other->text);
  }
  if (const auto* tensor = value.get_if<OtherTensor>()) {
    return tensor->kind + " tensor";
  }
  if (const auto* tensor = value.get_if<Tensor>()) {
    std::string text(info(tensor->dtype).name);
    text += " [";
    for (std::size_t i = 0; i < tensor->sizes.size(); ++i) {
      text += (i > 0 ? ", " : "") + std::to_string(tensor->sizes[i]);
    }
    text += ']';
    const auto& location = tensor->storage->location;
    return text + (location == "cpu" ? "" : " from " + brief(location));
  }
  return "";
}

// Text without quotes, but in a tuple.
std::string shown_key(const Value& key, bool quoted = false) {
  const auto* tuple = key.get_if<Tuple>();
  if (tuple == nullptr) {
    const auto* text = key.get_if<std::string>();
    return text != nullptr && !quoted ? brief(*text) : scalar_text(key);
  }
  std::string text = "(";
  for (const Value& item : tuple->items) {
    text += (text.size() > 1 ? ", " : "") + shown_key(item, /*quoted=*/true);
  }
  return text + ")";
}

class Printer {
 public:
  explicit Printer(const DescribeOptions& options) : options_(options) {}

  void print(const std::string& name, const Value& value, std::size_t depth) {
    const std::string indent(2 * depth, ' ');
    if (const auto* dict = value.get_if<Dict>()) {
      text_ += indent + name + ": " + summary(value, dict->size()) + "\n";
      for (const Entry& entry : *dict) {
        print(shown_key(entry.key), entry.value, depth + 1);
      }
      return;
    }
    const auto* items = items_of(value);
    if (items == nullptr) {
      text_ += indent + name + ": " + scalar_text(value) + "\n";
      return;
    }
    const std::size_t shown = std::min(options_.items, items->size());
    const bool plain = std::ranges::all_of(
        *items, [](const Value& item) { return !item.get_if<Dict>() && !items_of(item); });
    if (plain) {
      text_ += indent + name + ": [";
      for (std::size_t i = 0; i < shown; ++i) {
        text_ += (i > 0 ? ", " : "") + scalar_text((*items)[i]);
      }
      if (shown < items->size()) {
        text_ += (shown > 0 ? ", ... " : "... ") + std::to_string(items->size()) + " in all";
      }
      text_ += "]\n";
      return;
    }
    text_ += indent + name + ": " + summary(value, items->size()) + "\n";
    for (std::size_t i = 0; i < shown; ++i) {
      print(std::to_string(i), (*items)[i], depth + 1);
    }
    if (shown < items->size()) {
      text_ += indent + "  ... " + std::to_string(items->size() - shown) + " more\n";
    }
  }

  std::string take() { return std::move(text_); }

 private:
  const DescribeOptions& options_;
  std::string text_;
};

}  // namespace

std::string describe(const Document& document, const DescribeOptions& options) {
  std::string head = std::string(name_of(document.format)) + ", " + size_text(document.bytes);
  Printer printer(options);
  const auto* dict = document.root.get_if<Dict>();
  if (dict == nullptr) {
    printer.print("value", document.root, 0);
    return head + "\n" + printer.take();
  }
  for (const Entry& entry : *dict) {
    printer.print(shown_key(entry.key), entry.value, 0);
  }
  return head + "; " + summary(document.root, dict->size()) + "\n" + printer.take();
}

}  // namespace lockstep::checkpoint
