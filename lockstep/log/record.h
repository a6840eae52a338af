// TFRecord: how event files separate their records, and notice damaged ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep::log {

// TensorFlow's masked crc32c: a plain CRC of data that contains CRCs is weak.
std::uint32_t masked_crc32c(std::string_view bytes);

// Length, its sum, the payload, its sum.
std::string frame_record(std::string_view payload);

// Goes through the records of a file.
class RecordReader {
 public:
  // `bytes` must live as long as this. `name` is the file's, for messages.
  RecordReader(std::string_view bytes, std::string name) : bytes_(bytes), name_(std::move(name)) {}

  // The next payload; nothing at the end, or where the last record is cut (a writer that was killed
  // leaves such a file; see is_cut()). Throws IoError with file and offset if a sum is wrong.
  std::optional<std::string_view> next();

  // Where the next record begins.
  [[nodiscard]] std::size_t offset() const { return offset_; }
  // Whether bytes are left that are no whole record.
  [[nodiscard]] bool is_cut() const { return offset_ < bytes_.size(); }

 private:
  void require_sum(std::string_view sum, std::string_view bytes, const char* what) const;

  std::string_view bytes_;
  std::string name_;
  std::size_t offset_ = 0;
};

}  // namespace lockstep::log
