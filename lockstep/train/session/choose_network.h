// Which network a run trains, and how it is made.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lockstep/models/network.h"
#include "lockstep/train/config/config.h"
#include "lockstep/train/input/data_source.h"
#include "lockstep/train/session/session.h"

namespace lockstep::train {

// Those of the program first, then lockstep's.
std::vector<std::string> network_names(const Networks& networks);

// --model; without it the one that fits the data.
std::string model_for(const TrainConfig& config, const DataSource& source);

// Throws UsageError with the nearest name that exists if there is no such network.
std::shared_ptr<models::Network> make_network(const std::string& name, const DataSource& source,
                                              const Networks& networks);

}  // namespace lockstep::train
