#include "lockstep/log/metrics.h"

#include <array>
#include <charconv>
#include <cmath>

#include "lockstep/base/error.h"
#include "lockstep/log/utf8.h"

namespace lockstep::log {
namespace {

template <class Number>
std::string shortest(Number number) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), number).ptr;
  return {text.data(), end};
}

std::string number_text(double number) {
  if (std::isnan(number)) {
    return "NaN";
  }
  if (std::isinf(number)) {
    return number > 0 ? "Infinity" : "-Infinity";
  }
  return shortest(number);
}

std::string json_string(const std::string& text) {
  constexpr const char* kHex = "0123456789abcdef";
  std::string json = "\"";
  for (const char c : valid_utf8(text)) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      json += '\\';
      json += c;
    } else if (byte < 0x20) {
      json += "\\u00";
      json += kHex[byte >> 4];
      json += kHex[byte & 15];
    } else {
      json += c;
    }
  }
  return json + '"';
}

std::string json_value(const MetricValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) {
    return json_string(*text);
  }
  if (const auto* number = std::get_if<double>(&value)) {
    return std::isfinite(*number) ? shortest(*number) : json_string(number_text(*number));
  }
  return shortest(std::get<std::int64_t>(value));
}

// RFC 4180.
std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) {
    return text;
  }
  std::string quoted = "\"";
  for (const char c : text) {
    quoted += c;
    if (c == '"') {
      quoted += '"';
    }
  }
  return quoted + '"';
}

std::string csv_value(const MetricValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) {
    return csv_field(*text);
  }
  const auto* number = std::get_if<double>(&value);
  return number != nullptr ? number_text(*number) : shortest(std::get<std::int64_t>(value));
}

}  // namespace

std::string json_line(const Metrics& metrics) {
  std::string line = "{";
  for (const auto& [name, value] : metrics) {
    line += (line.size() > 1 ? ", " : "") + json_string(name) + ": " + json_value(value);
  }
  return line + "}\n";
}

MetricsFile::MetricsFile(std::string path, OnWarning on_warning)
    : file_(std::move(path), OpenLog::kLines, std::move(on_warning)) {}

SummaryCsv::SummaryCsv(std::string path, OnWarning on_warning)
    : file_(std::move(path), OpenLog::kLines, std::move(on_warning)) {
  const auto content = read_file(file_.path(), static_cast<std::size_t>(file_.size()));
  header_ = content.substr(0, content.find('\n'));
}

void SummaryCsv::write(const Metrics& row) {
  std::string names;
  std::string values;
  for (std::size_t column = 0; column < row.size(); ++column) {
    const char* comma = column == 0 ? "" : ",";
    names += comma + csv_field(row[column].first);
    values += comma + csv_value(row[column].second);
  }
  if (header_.empty()) {
    header_ = names;
  }
  if (names != header_) {
    throw UsageError("SummaryCsv '" + file_.path() + "': a row with the columns '" + names +
                     "', expected those of the file, '" + header_ + "'; write to another file");
  }
  // In one piece: a disk that refuses the header must not take the row.
  file_.append((file_.size() == 0 ? header_ + "\n" : "") + values + "\n");
}

}  // namespace lockstep::log
