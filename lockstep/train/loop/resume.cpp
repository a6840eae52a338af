#include "lockstep/train/loop/resume.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>

#include "lockstep/base/error.h"
#include "lockstep/base/text/nearest.h"
#include "lockstep/base/text/text.h"
#include "lockstep/checkpoint/cursor.h"
#include "lockstep/checkpoint/folder.h"
#include "lockstep/checkpoint/read.h"
#include "lockstep/train/loop/trainer.h"

namespace lockstep::train {
namespace {

constexpr const char* kJob = "job";

// Nobody knows what an unreadable file is.
bool can_be_read(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    return true;
  }
  std::ifstream file(path, std::ios::binary);
  const bool is_open = file.is_open();
  file.get();
  return is_open && !file.bad();
}

// Whether the folder has checkpoints, and the files of all can be read. If loading them fails, it
// is their contents that are damaged.
bool has_readable_checkpoints(const std::string& folder) {
  bool has_one = false;
  for (const char* name : {"/last.pt", "/prev.pt"}) {
    std::error_code error;
    if (std::filesystem::exists(folder + name, error)) {
      has_one = true;
      if (!can_be_read(folder + name)) {
        return false;
      }
    }
  }
  return has_one;
}

std::string hint_beside_damaged(const std::string& folder, const std::string& flag) {
  std::error_code error;
  const auto best = folder + "/best.pt";
  const bool has_best = std::filesystem::exists(best, error);
  return (has_best
              ? "--resume " + (flag.empty() ? "best" : best) + " to go on from the best one, or "
              : "") +
         "--resume no to start anew";
}

LoadedCheckpoint read_named(const std::string& path, const std::string& flag,
                            checkpoint::Document& document) {
  try {
    auto read = checkpoint::load_file_or_newest(path);
    document = std::move(read.document);
    return {from_value(read.file, document.root, "cpu", document.format), read.file, read.reason};
  } catch (const IoError& error) {
    if (flag != "--init-weights" && has_readable_checkpoints(path)) {
      throw UsageError(error.what() + std::string("; HINT: ") + hint_beside_damaged(path, flag));
    }
    if (flag.empty() || !can_be_read(path)) {
      throw;
    }
    throw UsageError(flag + ": " + error.what() +
                     "; HINT: give a checkpoint that lockstep train, torch.save or safetensors "
                     "wrote, such as runs/NAME/checkpoints/best.pt");
  }
}

}  // namespace

std::string on_rank_0(const Group& group, const std::function<std::string()>& work) {
  // The first letter says what follows: a result, or the error of one of two types.
  std::string message;
  if (group.rank() == 0) {
    try {
      message = "=" + work();
    } catch (const UsageError& error) {
      message = std::string("U") + error.what();
    } catch (const std::exception& error) {
      message = std::string("I") + error.what();
    }
  }
  message = group.broadcast_bytes(message);
  if (message.starts_with('U')) {
    throw UsageError(message.substr(1));
  }
  if (message.starts_with('I')) {
    if (group.rank() == 0) {
      throw IoError(message.substr(1));
    }
    throw PeerError("rank 0: " + message.substr(1));
  }
  return message.substr(1);
}

std::optional<LoadedCheckpoint> load_on_all_ranks(const Group& group, const std::string& path,
                                                  const std::string& flag) {
  LoadedCheckpoint loaded;
  checkpoint::Document document;
  loaded.file = on_rank_0(group, [&]() -> std::string {
    if (path.empty()) {
      return "";
    }
    loaded = read_named(path, flag, document);
    return loaded.file;
  });
  if (loaded.file.empty()) {
    return std::nullopt;
  }
  // The bytes that rank 0 has read and checked, so that all ranks have the same tensors: the file
  // of this name may be another one by now.
  const auto content = std::make_shared<const std::string>(on_rank_0(group, [&] {
    return group.size() > 1 ? std::string(checkpoint::as_text(document.content)) : "";
  }));
  loaded.reason = on_rank_0(group, [&] { return loaded.reason; });
  if (group.rank() != 0) {
    document = checkpoint::read_document(
        loaded.file, std::as_bytes(std::span(content->data(), content->size())), content);
    loaded.checkpoint = from_value(loaded.file, document.root, "cpu", document.format);
  }
  return loaded;
}

std::string flag_of_resume(const TrainConfig& config) {
  const auto& resume = config.resume;
  const bool is_word = resume == "auto" || resume == "last" || resume == "best" || resume == "no";
  return is_word ? "" : "--resume";
}

void require_checkpoint(const std::string& path, const std::string& flag) {
  checkpoint::Document document;
  (void)read_named(path, flag, document);
}

void require_initial_weights(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    const auto nearest = nearest_path(path);
    throw UsageError("--init-weights: there is no '" + path +
                     "', expected a checkpoint, or a folder of them; HINT: " +
                     (nearest ? "--init-weights " + *nearest
                              : "give the path of a file as runs/NAME/checkpoints/best.pt"));
  }
}

std::string resumed_text(const LoadedCheckpoint& loaded, const Position& position,
                         const TrainConfig& config) {
  const bool is_done = is_at_end(config, position);
  return "resumed from '" + loaded.file + "': " +
         (is_done
              ? "already finished, " + std::to_string(position.epoch) + " of " +
                    std::to_string(config.epochs) + " epochs are done and nothing is left to train"
              : "epoch " + std::to_string(position.epoch + 1) + ", step " +
                    std::to_string(position.step_in_epoch)) +
         (loaded.reason.empty() ? "" : " (" + loaded.reason + ")");
}

std::string job_of(const Checkpoint& checkpoint) {
  const checkpoint::Value others(checkpoint.others);
  const auto* found = others.find(kJob);
  const auto* job = found == nullptr ? nullptr : found->get_if<std::string>();
  return job == nullptr ? "" : *job;
}

Settings settings_in(const checkpoint::Value& args) {
  Settings settings;
  if (const auto* dict = args.get_if<checkpoint::Dict>()) {
    for (const auto& [key, value] : *dict) {
      const auto* name = key.get_if<std::string>();
      const auto* text = value.get_if<std::string>();
      if (name != nullptr && text != nullptr) {
        settings.emplace_back(*name, *text);
      }
    }
  }
  return settings;
}

void set_job(Checkpoint& checkpoint, const std::string& job) {
  if (!job.empty()) {
    checkpoint.others.push_back({kJob, job});
  }
}

void require_whole(const std::vector<std::string>& missing) {
  if (!missing.empty()) {
    throw UsageError("--eval-only: the checkpoint has no " + join(missing, ", ") +
                     " of this network's shape; HINT: give the --model, the data and the "
                     "--input-size that it was trained with");
  }
}

void require_same_classes(const DataSource& source, const std::vector<std::string>& trained) {
  const auto& ours = source.class_names;
  for (std::size_t i = 0; i < std::min(ours.size(), trained.size()); ++i) {
    if (ours[i] != trained[i]) {
      throw UsageError("--eval-only: class " + std::to_string(i) + " is '" + ours[i] +
                       "' in the data and '" + trained[i] +
                       "' in the checkpoint, expected the same classes in the same order; HINT: "
                       "give the data that it was trained with");
    }
  }
}

void require_unseen_samples(const TrainConfig& config, const DataSource& source,
                            const Settings& trained) {
  if (!source.is_split_by_seed) {
    return;
  }
  Settings theirs;
  Settings ours;
  bool is_same_data = false;
  const auto here = settings_of(config);
  for (const auto& [name, value] : trained) {
    is_same_data = is_same_data || (name == "the data" && value == source.index) ||
                   (name == "--data-dir" && value == config.data);
    const auto own = std::ranges::find(here, name, &Settings::value_type::first);
    if (own != here.end() && (name == "--seed" || name == "--val-split")) {
      theirs.emplace_back(name, value);
      ours.push_back(*own);
    }
  }
  const auto text = difference(ours, theirs, "there");
  if (is_same_data && !text.empty()) {
    throw UsageError(
        "--eval-only: the checkpoint was trained with another part of this data, so samples that "
        "it has learned would be validated:" +
        text + "\nHINT: give the same --seed and --val-split");
  }
}

}  // namespace lockstep::train
