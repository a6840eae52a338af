#include "lockstep/checkpoint/pickle/writer.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <map>

#include "lockstep/base/error.h"
#include "lockstep/base/text/utf8.h"

namespace lockstep::checkpoint {
namespace {

constexpr std::size_t kBatch = 1000;  // As Python's pickler.

// Python names again what it has written before. Text is the same where it is equal, as the short
// text of a Python program is.
class Writer {
 public:
  explicit Writer(const KeyOf& key_of) : key_of_(key_of) {}

  std::string run(const Value& root) {
    out_ = "\x80\x02";
    write(root);
    out_ += '.';
    return std::move(out_);
  }

 private:
  void write(const Value& value);
  void write_int(std::int64_t number);
  void write_float(double number);
  void write_text(const std::string& text);
  void write_bytes(const std::string& bytes);
  void write_other(const Other& other);
  void write_list(const List& list);
  void write_dict(const Dict& dict);
  void write_counter(const Counter& counter);
  void write_tensor(const Tensor& tensor);
  void write_sizes(const std::vector<std::int64_t>& numbers);
  void write_symbol(const std::string& module, const std::string& name);
  void close_tuple(std::size_t items);

  void number(std::uint64_t number, int bytes) {
    for (int i = 0; i < bytes; ++i) {
      out_ += static_cast<char>(number >> (8 * i));
    }
  }
  void put() {
    const std::uint64_t id = memo_++;
    out_ += id < 256 ? 'q' : 'r';
    number(id, id < 256 ? 1 : 4);
  }
  // True if it was written before, and is named now; else the caller writes it.
  bool get(const std::string& identity) {
    const auto [found, is_new] = written_.try_emplace(identity, memo_);
    if (!is_new) {
      out_ += found->second < 256 ? 'h' : 'j';
      number(found->second, found->second < 256 ? 1 : 4);
    }
    return !is_new;
  }

  const KeyOf& key_of_;
  std::string out_;
  std::uint64_t memo_ = 0;
  std::map<std::string, std::uint64_t> written_;
};

void Writer::write_int(std::int64_t value) {
  if (value >= 0 && value < 1 << 8) {
    out_ += 'K';
    number(static_cast<std::uint64_t>(value), 1);
  } else if (value >= 0 && value < 1 << 16) {
    out_ += 'M';
    number(static_cast<std::uint64_t>(value), 2);
  } else if (value == static_cast<std::int32_t>(value)) {
    out_ += 'J';
    number(static_cast<std::uint64_t>(value), 4);
  } else {
    int bytes = 8;  // As few as keep the sign.
    while (bytes > 1 && value >> (8 * bytes - 9) == (value < 0 ? -1 : 0)) {
      --bytes;
    }
    out_ += '\x8a';
    number(static_cast<std::uint64_t>(bytes), 1);
    number(static_cast<std::uint64_t>(value), bytes);
  }
}

void Writer::write_float(double value) {
  const auto bits = std::bit_cast<std::uint64_t>(value);
  out_ += 'G';
  for (int shift = 56; shift >= 0; shift -= 8) {
    out_ += static_cast<char>(bits >> shift);
  }
}

void Writer::write_text(const std::string& text) {
  if (!is_utf8(text, Surrogates::kAllowed)) {  // Python refuses it, and with it the file.
    throw UsageError("a checkpoint with the text '" + text +
                     "' cannot be written: it is no UTF-8, which Python needs");
  }
  if (!get("'" + text)) {
    out_ += 'X';
    number(text.size(), 4);
    out_ += text;
    put();
  }
}

void Writer::write_symbol(const std::string& module, const std::string& name) {
  if (!get(module + " " + name)) {
    out_ += 'c' + module + "\n" + name + "\n";
    put();
  }
}

// As latin1 text, because protocol 2 has no bytes.
void Writer::write_bytes(const std::string& bytes) {
  std::string text;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80) {
      text += c;
    } else {
      text += static_cast<char>(0xC0 | byte >> 6);
      text += static_cast<char>(0x80 | (byte & 0x3F));
    }
  }
  write_symbol("_codecs", "encode");
  write_text(text);
  write_text("latin1");
  close_tuple(2);
  out_ += 'R';
  put();
}

void Writer::write_other(const Other& other) {
  if (other.type == "torch.dtype") {
    write_symbol("torch", other.text);
    return;
  }
  if (other.type != "torch.device") {
    throw UsageError("a checkpoint with a '" + other.type + "' of '" + other.text +
                     "' cannot be written; use a number, text or a tensor");
  }
  const auto colon = other.text.find(':');
  const auto index = colon == std::string::npos ? "0" : other.text.substr(colon + 1);
  std::int64_t number = 0;
  const auto parsed = std::from_chars(index.data(), index.data() + index.size(), number);
  if (parsed.ec != std::errc() || parsed.ptr != index.data() + index.size()) {
    throw UsageError("a checkpoint with the device '" + other.text +
                     "' cannot be written: expected a number behind the colon, as in 'cuda:0'");
  }
  write_symbol("torch", "device");
  write_text(other.text.substr(0, colon));
  if (colon != std::string::npos) {
    write_int(number);
  }
  close_tuple(colon == std::string::npos ? 1 : 2);
  out_ += 'R';
  put();
}

void Writer::close_tuple(std::size_t items) {
  constexpr std::string_view kOpcodes = ")\x85\x86\x87";
  out_ += items < kOpcodes.size() ? kOpcodes[items] : 't';
  if (items > 0) {
    put();
  }
}

void Writer::write_sizes(const std::vector<std::int64_t>& numbers) {
  write(Tuple{List(numbers.begin(), numbers.end())});
}

void Writer::write_list(const List& list) {
  out_ += ']';
  put();
  for (std::size_t first = 0; first < list.size(); first += kBatch) {
    const std::size_t last = std::min(list.size(), first + kBatch);
    const bool one = last - first == 1;
    out_ += one ? "" : "(";
    for (std::size_t i = first; i < last; ++i) {
      write(list[i]);
    }
    out_ += one ? 'a' : 'e';
  }
}

void Writer::write_dict(const Dict& dict) {
  out_ += '}';
  put();
  for (std::size_t first = 0; first < dict.size(); first += kBatch) {
    const std::size_t last = std::min(dict.size(), first + kBatch);
    const bool one = last - first == 1;
    out_ += one ? "" : "(";
    for (std::size_t i = first; i < last; ++i) {
      write(dict[i].key);
      write(dict[i].value);
    }
    out_ += one ? 's' : 'u';
  }
}

void Writer::write_counter(const Counter& counter) {
  Dict dict;
  for (const auto& [number, count] : counter.counts) {
    dict.push_back({number, count});
  }
  write_symbol("collections", "Counter");
  write_dict(dict);
  close_tuple(1);
  out_ += 'R';
  put();
}

void Writer::write_tensor(const Tensor& tensor) {
  const DTypeInfo& type = info(tensor.dtype);
  const bool typed = !type.storage.empty();
  write_symbol("torch._utils", typed ? "_rebuild_tensor_v2" : "_rebuild_tensor_v3");
  out_ += "((";
  write_text("storage");
  if (typed) {
    write_symbol("torch", std::string(type.storage));
  } else {
    write_symbol("torch.storage", "UntypedStorage");
  }
  write_text(key_of_(tensor));
  write_text(tensor.storage->location);
  write_int(static_cast<std::int64_t>(tensor.storage->bytes.size() / (typed ? type.bytes : 1)));
  out_ += 't';
  put();
  out_ += 'Q';
  write_int(tensor.offset);
  write_sizes(tensor.sizes);
  write_sizes(tensor.strides);
  write(tensor.requires_grad);
  write_symbol("collections", "OrderedDict");  // The hooks: none.
  out_ += ")R";
  put();
  if (!typed) {
    write_symbol("torch", std::string(type.name));
  }
  if (tensor.is_conj && tensor.is_neg) {
    write_dict({{"conj", true}, {"neg", true}});
  } else if (tensor.is_conj || tensor.is_neg) {
    write_dict({{tensor.is_conj ? "conj" : "neg", true}});
  }
  out_ += 't';
  put();
  out_ += 'R';
  put();
}

void Writer::write(const Value& value) {
  if (value.is_none()) {
    out_ += 'N';
  } else if (const auto* flag = value.get_if<bool>()) {
    out_ += *flag ? '\x88' : '\x89';
  } else if (const auto* integer = value.get_if<std::int64_t>()) {
    write_int(*integer);
  } else if (const auto* real = value.get_if<double>()) {
    write_float(*real);
  } else if (const auto* text = value.get_if<std::string>()) {
    write_text(*text);
  } else if (const auto* bytes = value.get_if<Bytes>()) {
    write_bytes(bytes->content);
  } else if (const auto* other = value.get_if<Other>()) {
    write_other(*other);
  } else if (const auto* list = value.get_if<List>()) {
    write_list(*list);
  } else if (const auto* dict = value.get_if<Dict>()) {
    write_dict(*dict);
  } else if (const auto* tensor = value.get_if<Tensor>()) {
    write_tensor(*tensor);
  } else if (const auto* counter = value.get_if<Counter>()) {
    write_counter(*counter);
  } else if (const auto* sparse = value.get_if<OtherTensor>()) {
    throw UsageError("a checkpoint with a " + sparse->kind + " tensor cannot be written; use " +
                     sparse->advice);
  } else if (const auto* tuple = value.get_if<Tuple>()) {
    const std::size_t items = tuple->items.size();
    out_ += items > 3 ? "(" : "";
    for (const Value& item : tuple->items) {
      write(item);
    }
    close_tuple(items);
  }
}

}  // namespace

std::string write_pickle(const Value& root, const KeyOf& key_of) {
  return Writer(key_of).run(root);
}

}  // namespace lockstep::checkpoint
