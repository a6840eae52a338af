// Reads the checkpoint that a run goes on from, or that --eval-only is about, on rank 0, sends it
// to all ranks, and says what does not fit.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/comm/group.h"
#include "lockstep/train/checkpoint/checkpoint.h"
#include "lockstep/train/config/config.h"
#include "lockstep/train/input/data_source.h"
#include "lockstep/train/report/position.h"

namespace lockstep::train {

// Rank 0 reads `path`, a file or a folder of checkpoints, and sends it to the others, whose `path`
// means nothing. Nothing if rank 0 has an empty path. All ranks call it. What rank 0 throws all
// ranks throw.
// `flag` is the one that names the path, if one does: then a file that can be read and is no
// checkpoint is a UsageError.
std::optional<LoadedCheckpoint> load_on_all_ranks(const Group& group, const std::string& path,
                                                  const std::string& flag = "");

// "--resume" if its value is a path, else "".
std::string flag_of_resume(const TrainConfig& config);

// Reads what `flag` names and throws as load_on_all_ranks() would. On one rank, before a folder is
// made for a run that cannot begin.
void require_checkpoint(const std::string& path, const std::string& flag);

// `path` is a file or a folder of checkpoints that --init-weights names. Throws UsageError with the
// nearest path that exists if it is not there.
void require_initial_weights(const std::string& path);

// What a run says that goes on from there.
std::string resumed_text(const LoadedCheckpoint& loaded, const Position& position,
                         const TrainConfig& config);

// The settings in a checkpoint's args; empty if another program wrote it.
Settings settings_in(const checkpoint::Value& args);

// Which job saved the checkpoint; empty if it does not say. set_job() does nothing for an empty
// job.
std::string job_of(const Checkpoint& checkpoint);
void set_job(Checkpoint& checkpoint, const std::string& job);

// Calls `work` on rank 0 and returns what it returns on all ranks. What it throws all ranks throw:
// a UsageError as it is, anything else as an IoError on rank 0 and as a PeerError on the others.
std::string on_rank_0(const Group& group, const std::function<std::string()>& work);

// `missing` names the tensors of the network that the checkpoint did not set. Throws UsageError if
// there is one: the accuracy of a network that is partly random says nothing.
void require_whole(const std::vector<std::string>& missing);

// `trained` are the classes' names in the checkpoint, if it has any. Throws UsageError if the data
// has as many others: the scores would be compared with other things than were learned.
void require_same_classes(const DataSource& source, const std::vector<std::string>& trained);

// `trained` has the settings of the run that saved the checkpoint. Throws UsageError if the data is
// the same, but another part of it was set aside: samples that were learned would be validated.
void require_unseen_samples(const TrainConfig& config, const DataSource& source,
                            const Settings& trained);

}  // namespace lockstep::train
