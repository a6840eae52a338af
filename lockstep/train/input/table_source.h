// A CSV table as data: its rows are split by the seed, its columns scaled.
#pragma once

#include "lockstep/train/input/data_source.h"

namespace lockstep::train {

// The file config.data, whose labels are in the column config.label. Columns have mean 0 and
// deviation 1 over the rows that train. Throws UsageError if it has too few rows, one
// class, or absurd labels.
DataSource open_table(const TrainConfig& config);

}  // namespace lockstep::train
