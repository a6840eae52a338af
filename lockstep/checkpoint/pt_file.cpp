#include "lockstep/checkpoint/pt_file.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <unordered_map>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/cursor.h"
#include "lockstep/checkpoint/manifest.h"
#include "lockstep/checkpoint/pickle/reader.h"
#include "lockstep/checkpoint/pickle/writer.h"
#include "lockstep/checkpoint/zip/reader.h"

namespace lockstep::checkpoint {
namespace {

static_assert(std::endian::native == std::endian::little, "storages are little-endian");

// Torch aligns records. Where they are not, a storage is copied here, once for all of its tensors.
Storage aligned(Storage storage) {
  const std::size_t size = storage.bytes.size();
  if (reinterpret_cast<std::uintptr_t>(storage.bytes.data()) % alignof(std::max_align_t) == 0) {
    return storage;
  }
  const std::shared_ptr<std::byte[]> copy(new std::byte[size]);
  std::ranges::copy(storage.bytes, copy.get());
  return {{copy.get(), size}, std::move(storage.location), copy};
}

// A file that its reader refuses is lost work: what was pickled is read once, before it is written.
void check_readable(const std::string& pickle, const std::vector<const Storage*>& storages) {
  const auto find_storage = [&](const StorageName& name) {
    const Storage& storage = *storages.at(std::stoul(name.key));
    if (storage.bytes.size() != name.bytes) {
      throw IoError("it has a storage of " + std::to_string(storage.bytes.size()) +
                    " bytes, expected whole elements");
    }
    return std::make_shared<Storage>(storage);
  };
  try {
    (void)read_pickle("its pickle", as_bytes(pickle), find_storage);
  } catch (const IoError& error) {
    throw UsageError("a checkpoint that could not be read again is not written: " +
                     std::string(error.what()));
  }
}

// Which storage is in which record, and the value that names them.
class Reader {
 public:
  Reader(const std::string& file, const ZipFile& zip, std::shared_ptr<const void> owner)
      : file_(file), zip_(zip), owner_(std::move(owner)) {
    for (const ZipRecord& record : zip.records) {
      records_.emplace(record.name, &record);
    }
  }

  Value read() {
    const ZipRecord* const pickle = zip_.find("data.pkl");
    if (pickle == nullptr) {
      throw IoError("'" + file_ +
                    "' is a zip archive without a record 'data.pkl', expected a file "
                    "of torch.save");
    }
    if (zip_.find("constants.pkl") != nullptr) {
      throw OtherFormat("'" + file_ +
                        "' is a TorchScript archive, expected a file of torch.save; write "
                        "one with torch.save(torch.jit.load('" +
                        file_ + "').state_dict(), 'weights.pt')");
    }
    const ZipRecord* const order = zip_.find("byteorder");
    if (order != nullptr && as_text(order->bytes) != "little") {
      throw OtherFormat("'" + file_ +
                        "' was saved on a big-endian machine, expected little-endian");
    }
    return read_pickle(
        "'" + file_ + "', record 'data.pkl'", pickle->bytes,
        [this](const StorageName& name) { return storage(name); }, pickle->offset);
  }

  // " (tensor 'model.weight')", where the pickle can be read and names the record.
  std::string tensor_of(const ZipRecord& record) {
    const ZipRecord* const pickle = zip_.find("data.pkl");
    if (pickle == nullptr || &record == pickle || !is_sound(*pickle)) {
      return "";
    }
    try {
      const Value root = read();
      const auto found = storages_.find(record.name);
      const auto name = found == storages_.end() ? "" : name_of_storage(root, *found->second);
      return name.empty() ? "" : " (tensor '" + name + "')";
    } catch (const IoError&) {
      return "";
    }
  }

 private:
  std::shared_ptr<const Storage> storage(const StorageName& name) {
    const std::string record = "data/" + name.key;
    const auto place = records_.find(record);
    const ZipRecord* const found = place == records_.end() ? nullptr : place->second;
    if (found == nullptr || found->bytes.size() != name.bytes) {
      throw IoError("'" + file_ + "' has " +
                    (found == nullptr
                         ? "no record '" + in_message(record) + "'"
                         : std::to_string(found->bytes.size()) + " bytes in the record '" + record +
                               "' at byte " + std::to_string(found->offset)) +
                    ", expected " + std::to_string(name.bytes) + " bytes");
    }
    auto& known = storages_[found->name];
    if (known == nullptr) {
      known = std::make_shared<Storage>(aligned({found->bytes, name.location, owner_}));
    }
    return known;
  }

  const std::string& file_;
  const ZipFile& zip_;
  std::shared_ptr<const void> owner_;
  std::unordered_map<std::string_view, const ZipRecord*> records_;
  std::unordered_map<std::string_view, std::shared_ptr<Storage>> storages_;
};

}  // namespace

PtFile read_pt(const std::string& file, std::span<const std::byte> bytes,
               std::shared_ptr<const void> owner) {
  const ZipFile zip = read_zip(file, bytes);
  Reader reader(file, zip, std::move(owner));
  check_whole(file, zip, bytes, [&](const ZipRecord& record) { return reader.tensor_of(record); });
  return {reader.read(), zip.find(kManifest) != nullptr};
}

void write_pt(const Value& root, const Sink& sink, const PtOptions& options) {
  std::vector<const Storage*> storages;
  std::unordered_map<const Storage*, std::size_t> keys;
  const std::string pickle = write_pickle(root, [&](const Tensor& tensor) {
    const auto [found, is_new] = keys.try_emplace(tensor.storage.get(), storages.size());
    if (is_new) {
      storages.push_back(tensor.storage.get());
    }
    return std::to_string(found->second);
  });
  check_readable(pickle, storages);
  ZipWriter zip(sink, options.folder);
  Manifest manifest;
  const auto add = [&](const std::string& record, std::span<const std::byte> bytes) {
    zip.add(record, bytes);
    manifest.add(record, bytes);
  };
  add("data.pkl", as_bytes(pickle));
  add(".format_version", as_bytes("1"));
  add(".storage_alignment", as_bytes("64"));
  add("byteorder", as_bytes("little"));
  for (std::size_t i = 0; i < storages.size(); ++i) {
    add("data/" + std::to_string(i), storages[i]->bytes);
  }
  add("version", as_bytes("3\n"));
  if (!options.manifest) {
    zip.finish(0);
    return;
  }
  zip.add(kManifest, as_bytes(manifest.text()));
  zip.finish(kEndCommentBytes);
  zip.comment(end_comment(zip.crc32c()));
}

}  // namespace lockstep::checkpoint
