#include "lockstep/data/decode/pnm.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/text/printable.h"
#include "lockstep/base/text/text.h"

namespace lockstep::data {
namespace {

constexpr std::size_t kLongestWord = 10;

[[noreturn]] void refuse_pnm(const std::string& what) { throw IoError("PNM: " + what); }

struct PnmHeader {
  bool is_text = false;
  std::int64_t channels = 0;
  std::int64_t width = 0;
  std::int64_t height = 0;
  std::int64_t maxval = 0;

  [[nodiscard]] std::int64_t sample_bytes() const { return maxval < 256 ? 1 : 2; }
};

// Words between white space. A comment goes from # to the end of its line, and does not end a word.
class Words {
 public:
  explicit Words(std::string_view text) : text_(text) {}

  // The next word, with the one white space behind it taken too. Nothing at the end.
  std::optional<std::string> next() {
    std::string word;
    while (at_ < text_.size()) {
      const char c = text_[at_++];
      if (c == '#') {
        at_ = std::min(text_.find_first_of("\r\n", at_), text_.size() - 1) + 1;
      } else if (std::string_view(" \t\n\v\f\r").find(c) == std::string_view::npos) {
        word.push_back(c);
        if (word.size() > kLongestWord) {
          refuse_pnm("the word '" + printable_name(word) +
                     "...' has more than 10 characters, expected a number");
        }
      } else if (!word.empty()) {
        return word;
      }
    }
    return word.empty() ? std::nullopt : std::optional(word);
  }

  std::int64_t next_number(const char* what) {
    const auto word = next();
    if (!word) {
      refuse_pnm(std::string("the data end before ") + what);
    }
    const auto number = parse_int(*word);
    if (!number || *number < 0) {
      refuse_pnm(std::string(what) + " is '" + printable_name(*word) +
                 "', expected a number of 0 or more");
    }
    return *number;
  }

  [[nodiscard]] std::string_view rest() const { return text_.substr(at_); }

 private:
  std::string_view text_;
  std::size_t at_ = 0;
};

PnmHeader read_pnm_header(Words& words) {
  const std::string kind = words.next().value_or("");
  if (kind != "P2" && kind != "P3" && kind != "P5" && kind != "P6") {
    refuse_pnm("the file starts with '" + printable_name(kind) + "', expected P2, P3, P5 or P6");
  }
  PnmHeader header{.is_text = kind < "P4", .channels = kind == "P2" || kind == "P5" ? 1 : 3};
  header.width = words.next_number("the width");
  header.height = words.next_number("the height");
  header.maxval = words.next_number("the largest value");
  if (header.maxval < 1 || header.maxval > 65535) {
    refuse_pnm("the largest value is " + std::to_string(header.maxval) + ", expected 1 to 65535");
  }
  return header;
}

// What Pillow makes of each sample. Gray with more than 8 bits is scaled to 16 and then cut at 255;
// all else is scaled to 8. Samples of bytes may be larger than the largest value.
std::vector<std::uint8_t> sample_table(const PnmHeader& header) {
  const double scale = header.channels == 1 && header.maxval > 255 ? 65535 : 255;
  std::vector<std::uint8_t> table(header.sample_bytes() == 1 ? 256 : 65536);
  for (std::size_t sample = 0; sample < table.size(); ++sample) {
    const double value = static_cast<double>(sample) / static_cast<double>(header.maxval) * scale;
    table[sample] = static_cast<std::uint8_t>(std::min(255.0, std::nearbyint(value)));
  }
  return table;
}

// `next_sample` is called for each sample of the file, in order.
template <class NextSample>
void fill_pixels(const Image& image, std::int64_t channels, NextSample next_sample) {
  std::uint8_t* pixel = image.pixels.get();
  for (std::uint8_t* const end = pixel + image.bytes(); pixel != end; pixel += 3) {
    for (std::int64_t i = 0; i < 3; ++i) {
      pixel[i] = i < channels ? next_sample() : pixel[0];
    }
  }
}

void require_samples(const PnmHeader& header, std::int64_t max_pixels, std::string_view data) {
  // Overflow is not possible once make_image() would accept the size; so that is asked first.
  if (header.width < 1 || header.height < 1 || header.height > max_pixels / header.width) {
    return;
  }
  // A sample of text has at least one digit and a space before the next one.
  const std::int64_t samples = header.width * header.height * header.channels;
  const std::int64_t needed = header.is_text ? 2 * samples - 1 : samples * header.sample_bytes();
  if (static_cast<std::int64_t>(data.size()) < needed) {
    refuse_pnm("the header says " + std::to_string(header.width) + "x" +
               std::to_string(header.height) + " pixels, at least " + std::to_string(needed) +
               " bytes, and " + std::to_string(data.size()) + " follow");
  }
}

}  // namespace

Image decode_pnm(std::span<const std::byte> file, std::int64_t max_pixels) {
  Words words({reinterpret_cast<const char*>(file.data()), file.size()});
  const PnmHeader header = read_pnm_header(words);
  require_samples(header, max_pixels, words.rest());
  Image image = make_image(header.width, header.height, max_pixels);
  const std::vector<std::uint8_t> table = sample_table(header);
  if (header.is_text) {
    fill_pixels(image, header.channels, [&] {
      const std::int64_t sample = words.next_number("the last pixel");
      if (sample > header.maxval) {
        refuse_pnm("a sample is " + std::to_string(sample) + ", expected at most " +
                   std::to_string(header.maxval));
      }
      return table[static_cast<std::size_t>(sample)];
    });
  } else {
    const auto* next = reinterpret_cast<const std::uint8_t*>(words.rest().data());
    const bool wide = header.sample_bytes() == 2;
    fill_pixels(image, header.channels, [&] {
      const std::size_t first = *next++;
      return table[wide ? first << 8 | *next++ : first];
    });
  }
  return image;
}

}  // namespace lockstep::data
