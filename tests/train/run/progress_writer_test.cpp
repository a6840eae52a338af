#include "lockstep/train/run/progress_writer.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <cstdlib>

#include "lockstep/base/fd.h"
#include "tests/support/child.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/terminal.h"

namespace lockstep::train {
namespace {

using test::Terminal;
using ::testing::HasSubstr;
using ::testing::Not;

const Environment kPlain{{"TERM", "xterm"}, {"NO_COLOR", "1"}};

Progress at(std::int64_t step) { return {.epochs = 3, .step = step, .steps = 4, .loss = 0.5}; }

TEST(ProgressWriter, RewritesOneLineOfTheTerminalsWidth) {
  const Terminal terminal(40);
  {
    ProgressWriter writer(terminal.fd(), kPlain);
    EXPECT_TRUE(writer.is_terminal());
    writer.show(at(1));
    EXPECT_EQ(terminal.read(), "\r\x1b[Kepoch 1/3 [==>        ] 1/4 loss 0.5000");
    writer.show(at(2));
    EXPECT_EQ(terminal.read(), "\r\x1b[Kepoch 1/3 [=====>     ] 2/4 loss 0.5000");
    terminal.resize(30);
    writer.show(at(3));
    EXPECT_EQ(terminal.read(), "\r\x1b[K1/3 [=====> ] 3/4 loss 0.5000");
  }
  EXPECT_EQ(terminal.read(), "\r\n");
}

TEST(ProgressWriter, TextsStandAboveTheProgress) {
  const Terminal terminal(40);
  ProgressWriter writer(terminal.fd(), kPlain);
  writer.say("before");
  EXPECT_EQ(terminal.read(), "before\r\n");
  writer.show(at(4));
  (void)terminal.read();
  writer.say("epoch 1 is done");
  EXPECT_EQ(terminal.read(), "\r\x1b[Kepoch 1 is done\r\nepoch 1/3 [===========] 4/4 loss 0.5000");
  writer.finish();
  writer.finish();
  EXPECT_EQ(terminal.read(), "\r\n");
  writer.say("after");
  EXPECT_EQ(terminal.read(), "after\r\n");
}

TEST(ProgressWriter, HasColorsUnlessNoColorIsSet) {
  const Terminal terminal(80);
  ProgressWriter(terminal.fd(), {{"TERM", "xterm"}}).show(at(1));
  EXPECT_THAT(terminal.read(), HasSubstr("\x1b[36m"));
  ProgressWriter(terminal.fd(), {{"TERM", "xterm"}, {"NO_COLOR", ""}}).show(at(1));
  EXPECT_THAT(terminal.read(), HasSubstr("\x1b[36m")) << "an empty NO_COLOR counts as not set";
  ProgressWriter(terminal.fd(), kPlain).show(at(1));
  EXPECT_THAT(terminal.read(), Not(HasSubstr("\x1b[36m")));
}

TEST(ProgressWriter, ADumbTerminalGetsPlainLines) {
  const Terminal terminal(80);
  ProgressWriter writer(terminal.fd(), {{"TERM", "dumb"}});
  writer.show(at(1));
  EXPECT_EQ(terminal.read(), "epoch 1/3  1/4  loss 0.5000\r\n");
}

TEST(ProgressWriter, ATerminalThatTellsNoWidthHas80ColumnsOrWhatColumnsSays) {
  const Terminal terminal(0);
  ProgressWriter(terminal.fd(), kPlain).show(at(4));
  EXPECT_EQ(terminal.read(), "\r\x1b[Kepoch 1/3 [======================] 4/4 loss 0.5000\r\n");
  ProgressWriter(terminal.fd(), {{"TERM", "xterm"}, {"NO_COLOR", "1"}, {"COLUMNS", "31"}})
      .show(at(4));
  EXPECT_EQ(terminal.read(), "\r\x1b[K1/3 [========] 4/4 loss 0.5000\r\n");
}

TEST(ProgressWriter, AFileGetsALineForEach) {
  const test::TemporaryFolder folder;
  const UniqueFd file(::open(folder.file("out").c_str(), O_WRONLY | O_CREAT, 0600));
  {
    ProgressWriter writer(file.get(), {{"TERM", "xterm"}});
    EXPECT_FALSE(writer.is_terminal());
    EXPECT_TRUE(writer.is_due());
    writer.show(at(1));
    EXPECT_TRUE(writer.is_due());
    writer.say("a word");
    writer.show(at(2));
  }
  EXPECT_EQ(read_file(folder.file("out")),
            "epoch 1/3  1/4  loss 0.5000\na word\nepoch 1/3  2/4  loss 0.5000\n");
}

TEST(ProgressWriter, ATerminalIsNotDueRightAfterALine) {
  const Terminal terminal(80);
  ProgressWriter writer(terminal.fd(), kPlain);
  EXPECT_TRUE(writer.is_due());
  writer.show(at(1));
  EXPECT_FALSE(writer.is_due());
  ::usleep(110'000);
  EXPECT_TRUE(writer.is_due());
}

TEST(ProgressWriter, AStoppedTerminalDoesNotStopTheRun) {
  const Terminal terminal(80);
  ProgressWriter writer(terminal.fd(), kPlain);
  ASSERT_EQ(::tcflow(terminal.fd(), TCOOFF), 0);
  writer.show(at(1));
  ASSERT_EQ(::tcflow(terminal.fd(), TCOON), 0);
  EXPECT_EQ(terminal.read(), "");
  writer.show(at(2));
  EXPECT_THAT(terminal.read(), HasSubstr("2/4"));
}

TEST(ProgressWriter, ATerminalThatClosesAndAReaderThatLeavesDoNotEndTheRun) {
  const int status = test::run_in_child([] {
    Terminal terminal(80);
    ProgressWriter writer(terminal.fd(), kPlain);
    writer.show(at(1));
    terminal.close();
    writer.show(at(2));
    writer.say("a word");
    Pipe pipe = make_pipe();
    ProgressWriter into_pipe(pipe.write_end.get(), kPlain);
    pipe.read_end.reset();
    into_pipe.show(at(1));
    into_pipe.say("a word");
    return 0;
  });
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace lockstep::train
