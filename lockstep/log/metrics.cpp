#include "lockstep/log/metrics.h"

#include <array>
#include <charconv>
#include <cmath>
#include <fstream>
#include <functional>
#include <optional>

#include "lockstep/base/error.h"
#include "lockstep/base/text/printable.h"
#include "lockstep/base/text/text.h"
#include "lockstep/base/text/utf8.h"

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
  if (const auto* list = std::get_if<std::vector<std::string>>(&value)) {
    std::vector<std::string> items;
    for (const auto& item : *list) {
      items.push_back(json_string(item));
    }
    return "[" + join(items, ", ") + "]";
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
  if (const auto* list = std::get_if<std::vector<std::string>>(&value)) {
    return csv_field(join(*list, " "));
  }
  const auto* number = std::get_if<double>(&value);
  return number != nullptr ? number_text(*number) : shortest(std::get<std::int64_t>(value));
}

// The fields of a line that csv_field() or a spreadsheet's program wrote.
std::vector<std::string> csv_fields(std::string_view line) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (line.starts_with(kByteOrderMark)) {
    line.remove_prefix(kByteOrderMark.size());
  }
  if (line.ends_with('\r')) {
    line.remove_suffix(1);
  }
  std::vector<std::string> fields;
  bool in_quotes = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (fields.empty()) {
      fields.emplace_back();
    }
    if (line[i] == '"' && in_quotes && i + 1 < line.size() && line[i + 1] == '"') {
      fields.back() += line[++i];
    } else if (line[i] == '"') {
      in_quotes = !in_quotes;
    } else if (line[i] == ',' && !in_quotes) {
      fields.emplace_back();
    } else {
      fields.back() += line[i];
    }
  }
  return fields;
}

// For messages.
std::string in_words(const std::vector<std::string>& columns) {
  return "'" + printable_name(join(columns, ",")) + "'";
}

// The integer at the beginning of a text; nothing if there is none.
std::optional<std::int64_t> leading_int(std::string_view text) {
  return parse_int(text.substr(0, text.find_first_not_of("-0123456789")));
}

// The number of this name in a line of json_line(). No other place of such a line has a name in
// quotes before a colon: a quote inside of a text has a backslash.
std::optional<std::int64_t> number_in(std::string_view line, const std::string& name) {
  const std::string key = json_string(name) + ":";
  const auto at = line.find(key);
  if (at == std::string_view::npos) {
    return std::nullopt;
  }
  return leading_int(trim(line.substr(at + key.size())));
}

// Cuts the file before the first line that is not to be kept.
void cut_lines(LogFile& file, const std::function<bool(std::string_view line)>& keep) {
  const std::string content = file.content();
  std::size_t begin = 0;
  while (begin < content.size()) {
    const auto end = content.find('\n', begin);
    if (!keep(std::string_view(content).substr(begin, end - begin))) {
      file.cut(static_cast<std::int64_t>(begin));
      return;
    }
    begin = end + 1;
  }
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

void MetricsFile::drop_after(const std::string& name, std::int64_t last) {
  cut_lines(file_,
            [&](std::string_view line) { return number_in(line, name).value_or(last) <= last; });
}

void require_columns(const std::string& path, const std::vector<std::string>& names) {
  std::ifstream file(path, std::ios::binary);
  std::string header;
  std::getline(file, header);
  if (file.eof()) {
    return;  // Half a line, which is cut away when the file is opened.
  }
  const auto columns = csv_fields(header);
  if (!columns.empty() && columns != names) {
    throw UsageError("'" + path + "' has the columns " + in_words(columns) + ", expected " +
                     in_words(names) +
                     "; another program or version wrote it; HINT: move it away, and it is written "
                     "anew");
  }
}

void SummaryCsv::drop_after(std::int64_t last) {
  cut_lines(file_, [&](std::string_view line) {
    const auto number = line.starts_with('"') ? line.substr(1) : line;
    return leading_int(number).value_or(last) <= last;
  });
}

SummaryCsv::SummaryCsv(std::string path, OnWarning on_warning)
    : file_(std::move(path), OpenLog::kLines, std::move(on_warning)) {
  const auto content = file_.content();
  columns_ = csv_fields(std::string_view(content).substr(0, content.find('\n')));
}

void SummaryCsv::write(const Metrics& row) {
  std::vector<std::string> names;
  std::vector<std::string> fields;
  std::vector<std::string> values;
  for (const auto& [name, value] : row) {
    names.push_back(name);
    fields.push_back(csv_field(name));
    values.push_back(csv_value(value));
  }
  if (columns_.empty()) {
    columns_ = names;
  }
  if (names != columns_) {
    throw UsageError("SummaryCsv '" + file_.path() + "': a row with the columns " +
                     in_words(names) + ", expected those of the file, " + in_words(columns_) +
                     "; write to another file");
  }
  // In one piece: a disk that refuses the header must not take the row.
  file_.append((file_.size() == 0 ? join(fields, ",") + "\n" : "") + join(values, ",") + "\n");
}

}  // namespace lockstep::log
