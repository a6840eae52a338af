// A CUDA graph: what a stream was given, recorded once and replayed as one launch.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace lockstep::device {

class Graph {
 public:
  // Records what `work` gives to the current stream, which may not be the default one, and to the
  // streams that it makes wait for it; nothing of that runs. Other threads may use the GPU in the
  // meantime. Throws what `work` throws, and c10::Error if `work` did what cannot be recorded, such
  // as waiting for the GPU; streams, allocator and random numbers are as before then.
  explicit Graph(const std::function<void()>& work);
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  // Launches it on the current stream. Random numbers go on as if the work had been done anew.
  void replay();

  // For `work`, whose host code runs only once: `each` runs on the host after every launch.
  void after_replay(std::function<void()> each) { after_replay_.push_back(std::move(each)); }

  // The graph that the calling thread records; nullptr if it records none.
  static Graph* recording();

  // Why this build, or machine, records none; empty if it can.
  static std::string why_unavailable();

 private:
  struct Recorded;
  std::unique_ptr<Recorded> recorded_;
  std::vector<std::function<void()>> after_replay_;
};

}  // namespace lockstep::device
