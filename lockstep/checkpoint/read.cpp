#include "lockstep/checkpoint/read.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <new>

#include "lockstep/base/error.h"
#include "lockstep/base/fd.h"
#include "lockstep/checkpoint/cursor.h"
#include "lockstep/checkpoint/pt_file.h"
#include "lockstep/checkpoint/safetensors.h"

namespace lockstep::checkpoint {
namespace {

struct FileBytes {
  std::shared_ptr<std::byte[]> memory;
  std::size_t size = 0;
};

UniqueFd open_file(int folder, const std::string& name) {
  return UniqueFd(::openat(folder, name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
}

std::string opening(const std::string& path) { return "opening the checkpoint '" + path + "'"; }

// `file` is what open_file() returned, with its errno.
FileBytes read_all(const std::string& path, const UniqueFd& file) {
  struct stat status{};
  if (!file && errno == ELOOP) {
    throw IoError(opening(path) +
                  ": it is a link, and links are not followed; name the file it points to");
  }
  if (!file || ::fstat(file.get(), &status) != 0) {
    throw_errno(opening(path));
  }
  if (!S_ISREG(status.st_mode)) {
    throw IoError("the checkpoint '" + path + "' is a folder or a device, expected a file");
  }
  FileBytes bytes;
  bytes.size = static_cast<std::size_t>(status.st_size);
  try {
    bytes.memory = std::shared_ptr<std::byte[]>(new std::byte[bytes.size]);
  } catch (const std::bad_alloc&) {
    throw IoError("the checkpoint '" + path + "' has " + std::to_string(bytes.size) +
                  " bytes, more than this process can have in memory");
  }
  std::size_t got = 0;
  while (got < bytes.size) {
    const ssize_t count = ::read(file.get(), bytes.memory.get() + got, bytes.size - got);
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count < 0) {
      throw_errno("reading the checkpoint '" + path + "' at byte " + std::to_string(got));
    }
    if (count == 0) {
      throw IoError("reading the checkpoint '" + path + "': it was cut to " + std::to_string(got) +
                    " bytes meanwhile, expected " + std::to_string(bytes.size));
    }
    got += static_cast<std::size_t>(count);
  }
  return bytes;
}

// Before 1.6 torch.save wrote pickles one behind the other, and before 0.2 a tar archive.
bool looks_legacy(std::span<const std::byte> bytes) {
  const auto text = as_text(bytes);
  return text.starts_with('\x80') || (text.size() > 262 && text.substr(257, 5) == "ustar");
}

Document document_of(const std::string& path, FileBytes bytes) {
  const std::span<const std::byte> view(bytes.memory.get(), bytes.size);
  return read_document(path, view, std::move(bytes.memory));
}

// The number that torch.save began its pickles with, whichever protocol wrote it.
bool has_torchs_number(std::span<const std::byte> bytes) {
  return as_text(bytes).substr(0, 64).find("\x8a\nl\xfc\x9c\x46\xf9 j\xa8P\x19.") !=
         std::string_view::npos;
}

// As a shell takes it for one word, whatever is in it.
std::string shell_word(const std::string& text) {
  std::string word = "'";
  for (const char c : text) {
    word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  }
  return word + "'";
}

}  // namespace

std::string_view name_of(Format format) {
  switch (format) {
    case Format::kLockstep:
      return "lockstep checkpoint (torch.load reads it)";
    case Format::kTorch:
      return "torch.save file";
    case Format::kSafetensors:
      return "safetensors file";
  }
  return "";
}

Document read_document(const std::string& file, std::span<const std::byte> bytes,
                       std::shared_ptr<const void> owner) {
  if (as_text(bytes).starts_with("PK\x03\x04")) {
    PtFile pt = read_pt(file, bytes, owner);
    return {std::move(pt.root), pt.is_ours ? Format::kLockstep : Format::kTorch, bytes.size(),
            bytes, std::move(owner)};
  }
  if (looks_like_safetensors(bytes)) {
    return {read_safetensors(file, bytes, owner), Format::kSafetensors, bytes.size(), bytes,
            std::move(owner)};
  }
  if (looks_legacy(bytes)) {
    const bool is_torchs = !as_text(bytes).starts_with('\x80') || has_torchs_number(bytes);
    throw IoError(
        "'" + file + (is_torchs ? "' has the old format of torch.save" : "' is a bare pickle") +
        ", which can run code when it is read; if you trust it, convert it: python -c \"import " +
        (is_torchs ? "sys, torch; torch.save(torch.load(sys.argv[1], map_location='cpu', "
                     "weights_only=False), 'new.pt')\" "
                   : "pickle, sys, torch; torch.save(pickle.load(open(sys.argv[1], 'rb')), "
                     "'new.pt')\" ") +
        shell_word(file));
  }
  throw IoError("'" + file +
                "' is no checkpoint: it begins neither as a zip archive (torch.save) "
                "nor as safetensors, at byte 0");
}

Document read_checkpoint(const std::string& path) {
  return document_of(path, read_all(path, open_file(AT_FDCWD, path)));
}

SoundDocument read_if_sound(const OpenFolder& folder, const std::string& name) {
  const std::string path = folder.path + "/" + name;
  const UniqueFd file = open_file(folder.descriptor, name);
  if (!file && errno == ENOENT) {
    return {std::nullopt, opening(path) + ": No such file or directory"};
  }
  FileBytes bytes = read_all(path, file);
  try {
    return {document_of(path, std::move(bytes)), ""};
  } catch (const OtherFormat&) {
    throw;
  } catch (const IoError& error) {
    return {std::nullopt, error.what()};
  }
}

}  // namespace lockstep::checkpoint
