#include "lockstep/checkpoint/safetensors.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <tuple>
#include <unordered_set>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/cursor.h"

namespace lockstep::checkpoint {
namespace {

using Json = nlohmann::json;  // Sorted: the one in order searches all names for each.

constexpr std::uint64_t kMostHeader = 100'000'000;  // As the format's own reader.
constexpr int kDeepestHeader = 4;
constexpr std::string_view kMetadata = "__metadata__";

struct Placed {
  std::string name;
  Tensor tensor;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

Json parse(const std::string& file, std::string_view header) {
  bool too_deep = false;
  std::array<std::unordered_set<std::string>, kDeepestHeader + 2> keys;  // By their depth.
  const auto watch = [&](int depth, Json::parse_event_t event, Json& parsed) {
    too_deep = too_deep || depth > kDeepestHeader;
    if (!too_deep && event == Json::parse_event_t::object_start) {
      keys.at(static_cast<std::size_t>(depth) + 1).clear();
    }
    if (!too_deep && event == Json::parse_event_t::key) {  // The parser would take the last.
      const auto& key = parsed.get_ref<const std::string&>();
      if (!keys.at(static_cast<std::size_t>(depth)).insert(key).second) {
        fail_at(file, "has the name '" + key + "' twice in its header", 8);
      }
    }
    return !too_deep;
  };
  Json json = Json::parse(header, watch, /*allow_exceptions=*/false);
  if (too_deep || !json.is_object()) {
    fail_at(file, "has a header that is no JSON object of tensors", 8);
  }
  return json;
}

// Numbers that are not negative; empty if one is something else.
std::optional<std::vector<std::uint64_t>> numbers(const Json& entry, const char* key) {
  const auto found = entry.find(key);
  if (found == entry.end() || !found->is_array()) {
    return std::nullopt;
  }
  std::vector<std::uint64_t> result;
  for (const Json& item : *found) {
    if (!item.is_number_unsigned()) {
      return std::nullopt;
    }
    result.push_back(item.get<std::uint64_t>());
  }
  return result;
}

Placed read_entry(const std::string& file, const std::string& name, const Json& entry,
                  std::uint64_t data_bytes) {
  const std::string tensor = "has the tensor '" + name + "' ";
  const auto shape = entry.is_object() ? numbers(entry, "shape") : std::nullopt;
  const auto offsets = entry.is_object() ? numbers(entry, "data_offsets") : std::nullopt;
  if (!shape || !offsets || offsets->size() != 2 || shape->size() > 64 || entry.size() != 3 ||
      !entry.contains("dtype") || !entry["dtype"].is_string()) {
    fail_at(file, tensor + "without dtype, shape and data_offsets, or with more", 8);
  }
  const auto& type_name = entry["dtype"].get_ref<const std::string&>();
  const auto type =
      std::ranges::find(dtypes(), std::string_view(type_name), &DTypeInfo::safetensors);
  if (type == dtypes().end() || type_name.empty()) {
    fail_at(file, tensor + "of type '" + type_name + "', which torch has not", 8);
  }
  Placed placed{name, {type->dtype}, (*offsets)[0], (*offsets)[1]};
  for (const std::uint64_t size : *shape) {
    placed.tensor.sizes.push_back(static_cast<std::int64_t>(
        std::min<std::uint64_t>(size, std::numeric_limits<std::int64_t>::max())));
  }
  const auto count = count_elements(placed.tensor.sizes);
  std::uint64_t bytes = 0;
  if (!count || __builtin_mul_overflow(static_cast<std::uint64_t>(*count), type->bytes, &bytes) ||
      placed.begin > placed.end || placed.end > data_bytes || placed.end - placed.begin != bytes) {
    fail_at(file,
            tensor + "at " + std::to_string(placed.begin) + " to " + std::to_string(placed.end) +
                " of " + std::to_string(data_bytes) + " bytes, expected as many as its shape has",
            8);
  }
  placed.tensor.strides = contiguous_strides(placed.tensor.sizes);
  return placed;
}

// Without holes and overlaps, so that no byte of the file goes unused. In the order of the data.
void check_places(const std::string& file, const std::vector<Placed>& tensors,
                  std::uint64_t header_end, std::uint64_t data_bytes) {
  std::uint64_t end = 0;
  for (const Placed& placed : tensors) {
    if (placed.begin != end) {
      fail_at(file,
              "has the tensor '" + placed.name + "' at " + std::to_string(placed.begin) +
                  ", expected it where the one before ends, at " + std::to_string(end),
              header_end + placed.begin);
    }
    end = placed.end;
  }
  if (end != data_bytes) {
    fail_at(file, "has " + std::to_string(data_bytes - end) + " bytes that belong to no tensor",
            header_end + end);
  }
}

// What JSON cannot have, such as text that is no UTF-8, is an error of the caller.
std::string dumped(const Json& json) {
  try {
    return json.dump();
  } catch (const Json::exception& error) {
    throw UsageError(std::string("safetensors: a name or text cannot be written: ") + error.what());
  }
}

}  // namespace

bool looks_like_safetensors(std::span<const std::byte> bytes) {
  return bytes.size() > 8 && bytes[8] == std::byte{'{'};
}

Value read_safetensors(const std::string& file, std::span<const std::byte> bytes,
                       const std::shared_ptr<const void>& owner) {
  Cursor cursor("'" + file + "'", bytes);
  const std::uint64_t header_bytes = cursor.number(8, "the length of the header");
  if (header_bytes > kMostHeader) {
    cursor.fail("has a header of " + std::to_string(header_bytes) + " bytes, expected at most " +
                std::to_string(kMostHeader));
  }
  const Json header = parse(file, cursor.text(header_bytes, "the header"));
  const std::uint64_t start = cursor.offset();
  const std::uint64_t data_bytes = cursor.left();
  std::vector<Placed> tensors;
  Dict dict;
  for (const auto& [name, entry] : header.items()) {
    if (name != kMetadata) {
      tensors.push_back(read_entry(file, name, entry, data_bytes));
      continue;
    }
    Dict metadata;
    for (const auto& [key, text] : entry.items()) {
      if (!entry.is_object() || !text.is_string()) {
        fail_at(file, "has '__metadata__' that is not text for each key", 8);
      }
      metadata.push_back({key, text.get<std::string>()});
    }
    dict.push_back({std::string(kMetadata), std::move(metadata)});
  }
  std::ranges::sort(tensors, {}, [](const Placed& placed) {
    return std::tie(placed.begin, placed.end, placed.name);
  });
  check_places(file, tensors, start, data_bytes);
  for (Placed& placed : tensors) {
    placed.tensor.storage = std::make_shared<Storage>(
        Storage{bytes.subspan(start + placed.begin, placed.end - placed.begin), "cpu", owner});
    dict.push_back({std::move(placed.name), std::move(placed.tensor)});
  }
  return dict;
}

void write_safetensors(const Value& root, const Sink& sink) {
  const auto* dict = root.get_if<Dict>();
  if (dict == nullptr) {
    throw UsageError("safetensors: a file holds a dictionary of tensors, not " +
                     std::string(kind_of(root)));
  }
  struct Item {
    const std::string* name;
    const Tensor* tensor;
    std::span<const std::byte> bytes;
  };
  std::vector<Item> items;
  Json metadata_text = Json::object();
  for (const Entry& entry : *dict) {
    const auto* name = entry.key.get_if<std::string>();
    if (name != nullptr && *name == kMetadata) {
      const auto* metadata = entry.value.get_if<Dict>();
      if (metadata == nullptr) {
        throw UsageError("safetensors: '__metadata__' is " + std::string(kind_of(entry.value)) +
                         ", expected a dictionary of text; give the tensor another name");
      }
      for (const Entry& item : *metadata) {
        const auto* key = item.key.get_if<std::string>();
        const auto* text = item.value.get_if<std::string>();
        if (key == nullptr || text == nullptr) {
          throw UsageError("safetensors: '__metadata__' holds text for text, nothing else");
        }
        metadata_text[*key] = *text;
      }
      continue;
    }
    const auto* tensor = entry.value.get_if<Tensor>();
    if (name == nullptr || tensor == nullptr) {
      throw UsageError("safetensors: '" + (name == nullptr ? "?" : *name) + "' is " +
                       std::string(kind_of(entry.value)) + ", expected a tensor with a name");
    }
    const auto bytes = contiguous_bytes(*tensor);
    if (!bytes || info(tensor->dtype).safetensors.empty()) {
      throw UsageError("safetensors: the tensor '" + *name + "' of type " +
                       std::string(info(tensor->dtype).name) +
                       (bytes ? " has no name in this format" : " is not contiguous"));
    }
    items.push_back({name, tensor, *bytes});
  }
  // Large elements first, so that each tensor is aligned to its elements.
  std::ranges::sort(items, [](const Item& one, const Item& other) {
    const auto bytes = info(one.tensor->dtype).bytes;
    const auto other_bytes = info(other.tensor->dtype).bytes;
    return bytes != other_bytes ? bytes > other_bytes : *one.name < *other.name;
  });
  std::uint64_t at = 0;
  std::unordered_set<std::string_view> names;
  std::string text = "{";
  if (!metadata_text.empty()) {
    text += "\"__metadata__\":" + dumped(metadata_text) + ",";
  }
  for (const Item& item : items) {
    if (!names.insert(*item.name).second) {
      throw UsageError("safetensors: there are two tensors '" + *item.name + "'");
    }
    const nlohmann::ordered_json entry = {{"dtype", info(item.tensor->dtype).safetensors},
                                          {"shape", item.tensor->sizes},
                                          {"data_offsets", {at, at + item.bytes.size()}}};
    text += dumped(*item.name) + ":" + entry.dump() + ",";
    at += item.bytes.size();
  }
  text.resize(text.size() - (text.ends_with(',') ? 1 : 0));
  text += '}';
  text.resize((text.size() + 7) / 8 * 8, ' ');
  std::string length;
  for (int i = 0; i < 8; ++i) {
    length += static_cast<char>(text.size() >> (8 * i));
  }
  sink(as_bytes(length));
  sink(as_bytes(text));
  for (const Item& item : items) {
    sink(item.bytes);
  }
}

}  // namespace lockstep::checkpoint
