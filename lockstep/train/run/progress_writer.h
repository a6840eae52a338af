// Shows the progress of a run: one line that is rewritten on a terminal, plain lines elsewhere.
#pragma once

#include <chrono>
#include <string>

#include "lockstep/base/environment.h"
#include "lockstep/train/run/progress_line.h"

namespace lockstep::train {

// A run does not end because its terminal did: what cannot be written is left out, and nothing
// throws. Not for several threads.
class ProgressWriter {
 public:
  // `fd` stays open as long as this. It is a terminal to us unless TERM is "dumb"; NO_COLOR, if it
  // is set and not empty, leaves out the colors; COLUMNS is the width where the terminal tells
  // none.
  explicit ProgressWriter(int fd, const Environment& environment = Environment::of_this_process());
  // Ends the line.
  ~ProgressWriter();
  ProgressWriter(const ProgressWriter&) = delete;
  ProgressWriter& operator=(const ProgressWriter&) = delete;

  [[nodiscard]] bool is_terminal() const { return is_terminal_; }
  // How wide a line may be on a terminal: one column stays free, since in the last one some
  // terminals go to the next line.
  [[nodiscard]] int line_width() const { return width() - 1; }

  // Whether a new line would be seen: on a terminal ten times a second at most.
  [[nodiscard]] bool is_due() const;
  // On a terminal in the place of the line before; elsewhere a line of its own. Does not wait for a
  // terminal that takes nothing.
  void show(const Progress& progress);
  // A line of text that stays, above the progress.
  void say(const std::string& text);
  // What was shown last stays; the next line is a new one.
  void finish();

 private:
  void write(const std::string& text) const;
  [[nodiscard]] bool takes_output() const;
  [[nodiscard]] int width() const;

  int fd_;
  bool is_terminal_ = false;
  bool color_ = false;
  int columns_ = 80;   // Where the terminal does not tell.
  std::string shown_;  // The line that the next one replaces.
  std::chrono::steady_clock::time_point next_{};
};

}  // namespace lockstep::train
