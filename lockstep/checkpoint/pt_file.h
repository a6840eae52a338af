// Files that torch.save writes and torch.load reads: a zip archive with a pickle and storages.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "lockstep/checkpoint/value.h"
#include "lockstep/checkpoint/zip/writer.h"

namespace lockstep::checkpoint {

struct PtFile {
  Value root;
  bool is_ours = false;  // With a manifest, so that no damage goes unseen.
};

// Tensors show `bytes`, which `owner` keeps, or aligned copies of a storage. Throws IoError that
// names the file, the record or tensor, and the offset, if anything in it is not sound.
PtFile read_pt(const std::string& file, std::span<const std::byte> bytes,
               std::shared_ptr<const void> owner);

struct PtOptions {
  std::string folder = "archive";  // Holds the records; torch.save takes it from the file's name.
  bool manifest = true;            // False: byte for byte what torch.save writes.
};

// Throws what the sink throws. Throws UsageError before the first byte if the value cannot be
// pickled, or read_pt() would refuse it: a key twice in a dictionary, a limit, a tensor that leaves
// its storage.
void write_pt(const Value& root, const Sink& sink, const PtOptions& options = {});

}  // namespace lockstep::checkpoint
