// A CUDA graph: the work of a stream, recorded once and replayed as one launch.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace lockstep::device {

class Graph {
 public:
  // Records what `work` launches on the current stream, which must not be the default one, and on
  // the streams that it makes wait for it. None of it runs. Other threads may use the GPU
  // meanwhile. Throws what `work` throws, and c10::Error if `work` does something that cannot be
  // recorded, such as waiting for the GPU. After an error, streams, allocator and random numbers
  // are as before.
  explicit Graph(const std::function<void()>& work);
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  // Launches it on the current stream. Random numbers go on as if the work had run eagerly. Throws
  // UsageError after end_recordings().
  void replay();

  // For `work`, whose host code runs only once: `each` runs on the host after every launch.
  void after_replay(std::function<void()> each) { after_replay_.push_back(std::move(each)); }

  // The graph that the calling thread records; nullptr if it records none.
  static Graph* recording();
  // Its number, by which it can be known again: its address may later be another graph's. 0 if the
  // calling thread records none.
  static std::uint64_t recording_number() {
    const auto* const graph = recording();
    return graph == nullptr ? 0 : graph->number_;
  }

  // Whether any thread records the calling thread's current stream: backward() runs hooks on
  // threads of its own, where recording() knows nothing, with the stream of the forward pass.
  static bool is_stream_recorded();

  // Why this build, or machine, records none; empty if it can.
  static std::string why_unavailable();

  // For what work uses and does not own, such as a communicator: the recordings of all threads that
  // are being made now...
  struct Recorded;
  using Recordings = std::vector<std::weak_ptr<Recorded>>;
  static Recordings being_made();
  // ... and their end, before what they use ends. `what` is that: "the process group".
  static void end_recordings(const Recordings& recordings, const std::string& what);

 private:
  static std::uint64_t next_number() {
    static std::atomic<std::uint64_t> last = 0;
    return ++last;
  }

  std::uint64_t number_ = next_number();
  std::shared_ptr<Recorded> recorded_;
  std::vector<std::function<void()>> after_replay_;
};

}  // namespace lockstep::device
