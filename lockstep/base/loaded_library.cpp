#include "lockstep/base/loaded_library.h"

#include <elf.h>
#include <link.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <span>

namespace lockstep {
namespace {

struct Search {
  std::string_view file_name;
  std::string found;
};

std::string hexadecimal(std::span<const std::byte> bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const auto byte : bytes) {
    const auto value = std::to_integer<unsigned>(byte);
    text += kDigits[value >> 4];
    text += kDigits[value & 15];
  }
  return text;
}

std::size_t rounded_up(std::size_t size, std::size_t to) { return (size + to - 1) / to * to; }

// Reads one segment of notes: each is a header, a name and a description, the latter two aligned.
std::string build_id_in(std::span<const std::byte> notes, std::size_t alignment) {
  ElfW(Nhdr) header{};
  while (notes.size() >= sizeof header) {
    std::memcpy(&header, notes.data(), sizeof header);
    const auto name = notes.subspan(sizeof header);
    const std::size_t description = rounded_up(header.n_namesz, alignment);
    if (description > name.size() || header.n_descsz > name.size() - description) {
      return "";
    }
    const bool is_gnu = header.n_namesz == sizeof ELF_NOTE_GNU &&
                        std::memcmp(name.data(), ELF_NOTE_GNU, sizeof ELF_NOTE_GNU) == 0;
    if (is_gnu && header.n_type == NT_GNU_BUILD_ID) {
      return hexadecimal(name.subspan(description, header.n_descsz));
    }
    const std::size_t end = description + rounded_up(header.n_descsz, alignment);
    notes = name.subspan(std::min(end, name.size()));
  }
  return "";
}

std::string build_id_of(const dl_phdr_info& library) {
  for (const auto& segment : std::span(library.dlpi_phdr, library.dlpi_phnum)) {
    if (segment.p_type != PT_NOTE) {
      continue;
    }
    // NOLINTNEXTLINE(performance-no-int-to-ptr): this is how the loader tells addresses.
    const auto* begin = reinterpret_cast<const std::byte*>(library.dlpi_addr + segment.p_vaddr);
    const auto id = build_id_in({begin, segment.p_memsz}, segment.p_align == 8 ? 8 : 4);
    if (!id.empty()) {
      return id;
    }
  }
  return "";
}

int look_at(dl_phdr_info* library, std::size_t /*size*/, void* data) {
  auto& search = *static_cast<Search*>(data);
  const std::filesystem::path path(library->dlpi_name);
  if (path.filename().string() != search.file_name) {
    return 0;
  }
  search.found = build_id_of(*library);
  if (search.found.empty()) {
    std::error_code error;
    search.found = std::to_string(std::filesystem::file_size(path, error)) + " bytes";
  }
  return 1;
}

}  // namespace

std::string build_of_loaded_library(std::string_view file_name) {
  Search search{file_name, {}};
  ::dl_iterate_phdr(look_at, &search);
  return search.found;
}

}  // namespace lockstep
