#include "lockstep/log/event.h"

#include <bit>

#include "lockstep/base/error.h"
#include "lockstep/log/protobuf.h"

namespace lockstep::log {
namespace {

constexpr std::uint64_t kStart = 1;   // SessionLog.SessionStatus
constexpr std::uint64_t kString = 7;  // DataType DT_STRING

std::string encode(const Histogram& histogram) {
  ProtoWriter message;
  const auto add = [&](int field, double value) {
    if (std::bit_cast<std::uint64_t>(value) != 0) {  // As protobuf: zero is not written, -0 is.
      message.add_double(field, value);
    }
  };
  add(1, histogram.min);
  add(2, histogram.max);
  add(3, histogram.num);
  add(4, histogram.sum);
  add(5, histogram.sum_squares);
  message.add_doubles(6, histogram.bucket_limit);
  message.add_doubles(7, histogram.bucket);
  return message.bytes();
}

// A TensorProto of one string.
std::string encode_text(const std::string& text) {
  ProtoWriter dimension;
  dimension.add_varint(1, 1);
  ProtoWriter shape;
  shape.add_bytes(2, dimension.bytes());
  ProtoWriter tensor;
  tensor.add_varint(1, kString);
  tensor.add_bytes(2, shape.bytes());
  tensor.add_bytes(8, text);
  return tensor.bytes();
}

// A SummaryMetadata: which of TensorBoard's plugins shows a tensor.
std::string encode_plugin(const char* name) {
  ProtoWriter plugin;
  plugin.add_bytes(1, name);
  ProtoWriter metadata;
  metadata.add_bytes(1, plugin.bytes());
  return metadata.bytes();
}

std::string encode(const SummaryValue& value) {
  ProtoWriter message;
  message.add_bytes(1, value.tag);
  if (const auto* scalar = std::get_if<float>(&value.value)) {
    message.add_float(2, *scalar);
  } else if (const auto* histogram = std::get_if<Histogram>(&value.value)) {
    message.add_bytes(5, encode(*histogram));
  } else if (const auto* text = std::get_if<std::string>(&value.value)) {
    message.add_bytes(8, encode_text(*text));
    message.add_bytes(9, encode_plugin("text"));
  }
  return message.bytes();
}

void parse_doubles(const ProtoReader& field, std::vector<double>& values) {
  const auto packed = field.as_bytes();
  if (packed.size() % 8 != 0) {
    throw IoError("doubles in " + std::to_string(packed.size()) + " bytes");
  }
  for (std::size_t i = 0; i < packed.size(); i += 8) {
    values.push_back(std::bit_cast<double>(parse_fixed64(packed.substr(i, 8))));
  }
}

Histogram parse_histogram(std::string_view bytes) {
  Histogram histogram;
  for (ProtoReader message(bytes); message.next();) {
    switch (message.field()) {
      case 1:
        histogram.min = message.as_double();
        break;
      case 2:
        histogram.max = message.as_double();
        break;
      case 3:
        histogram.num = message.as_double();
        break;
      case 4:
        histogram.sum = message.as_double();
        break;
      case 5:
        histogram.sum_squares = message.as_double();
        break;
      case 6:
        parse_doubles(message, histogram.bucket_limit);
        break;
      case 7:
        parse_doubles(message, histogram.bucket);
        break;
      default:
        break;
    }
  }
  if (histogram.bucket.size() != histogram.bucket_limit.size()) {
    throw IoError("a histogram of " + std::to_string(histogram.bucket.size()) + " buckets with " +
                  std::to_string(histogram.bucket_limit.size()) + " limits");
  }
  return histogram;
}

// The string of a tensor that holds one; else monostate.
std::variant<std::monostate, float, std::string, Histogram> parse_tensor(std::string_view bytes) {
  std::uint64_t type = 0;
  std::vector<std::string> texts;
  for (ProtoReader message(bytes); message.next();) {
    if (message.field() == 1) {
      type = message.as_varint();
    } else if (message.field() == 8) {
      texts.emplace_back(message.as_bytes());
    }
  }
  if (type == kString && texts.size() == 1) {
    return texts.front();
  }
  return {};
}

SummaryValue parse_value(std::string_view bytes) {
  SummaryValue value;
  for (ProtoReader message(bytes); message.next();) {
    switch (message.field()) {
      case 1:
        value.tag = message.as_bytes();
        break;
      case 2:
        value.value = message.as_float();
        break;
      case 5:
        value.value = parse_histogram(message.as_bytes());
        break;
      case 8:
        value.value = parse_tensor(message.as_bytes());
        break;
      default:
        break;
    }
  }
  return value;
}

}  // namespace

std::string encode_event(const Event& event) {
  ProtoWriter message;
  message.add_double(1, event.wall_time);
  if (event.step != 0) {
    message.add_varint(2, static_cast<std::uint64_t>(event.step));
  }
  if (!event.file_version.empty()) {
    message.add_bytes(3, event.file_version);
  }
  if (!event.summary.empty()) {
    ProtoWriter summary;
    for (const auto& value : event.summary) {
      summary.add_bytes(1, encode(value));
    }
    message.add_bytes(5, summary.bytes());
  }
  if (event.session_start) {
    ProtoWriter session;
    session.add_varint(1, kStart);
    message.add_bytes(7, session.bytes());
  }
  if (!event.writer.empty()) {
    ProtoWriter source;
    source.add_bytes(1, event.writer);
    message.add_bytes(10, source.bytes());
  }
  return message.bytes();
}

Event parse_event(std::string_view bytes) {
  Event event;
  for (ProtoReader message(bytes); message.next();) {
    switch (message.field()) {
      case 1:
        event.wall_time = message.as_double();
        break;
      case 2:
        event.step = static_cast<std::int64_t>(message.as_varint());
        break;
      case 3:
        event.file_version = message.as_bytes();
        break;
      case 5:
        for (ProtoReader summary(message.as_bytes()); summary.next();) {
          if (summary.field() == 1) {
            event.summary.push_back(parse_value(summary.as_bytes()));
          }
        }
        break;
      case 7:
        for (ProtoReader session(message.as_bytes()); session.next();) {
          event.session_start |= session.field() == 1 && session.as_varint() == kStart;
        }
        break;
      case 10:
        for (ProtoReader source(message.as_bytes()); source.next();) {
          if (source.field() == 1) {
            event.writer = source.as_bytes();
          }
        }
        break;
      default:
        break;
    }
  }
  return event;
}

}  // namespace lockstep::log
