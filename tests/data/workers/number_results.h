// Results of worker threads that are numbers.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "lockstep/data/workers/worker_pool.h"

namespace lockstep::data {

inline WorkerPool::Result number_as_result(std::int64_t number) {
  return std::make_shared<std::int64_t>(number);
}

inline std::int64_t number_of(const WorkerPool::Result& result) {
  return *static_cast<std::int64_t*>(result.get());
}

inline std::vector<std::int64_t> all_of(WorkerPool& pool) {
  std::vector<std::int64_t> numbers;
  while (const auto result = pool.next()) {
    numbers.push_back(number_of(result));
  }
  return numbers;
}

}  // namespace lockstep::data
