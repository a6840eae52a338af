// One rank writes random words all over what it owns of the shared memory while the others work.
// They may see errors and wrong numbers; they must not crash, nor wait beyond their deadline, nor
// touch other memory, which is what AddressSanitizer looks at. LOCKSTEP_HOSTILE_SEEDS makes a soak
// of it.
#include <gmock/gmock.h>

#include <cstdlib>
#include <cstring>
#include <random>

#include "lockstep/base/error.h"
#include "lockstep/shm/collectives/mailbox.h"
#include "tests/shm/teams.h"

namespace lockstep::shm {
namespace {

using testing::input_of;
using testing::output_of;
using testing::tensor_of;
using Ints = std::vector<std::int32_t>;

constexpr int kRanks = 3;
constexpr Fold kHostileSum{.reduction = {DType::kInt32, ReduceOp::kSum}};
constexpr std::chrono::milliseconds kPatience{60};
// For an answer after the deadline, on a machine that is busy with other things.
constexpr std::chrono::seconds kGrace{20};

unsigned seeds() {
  const char* text = std::getenv("LOCKSTEP_HOSTILE_SEEDS");
  return text != nullptr ? static_cast<unsigned>(std::atoi(text)) : 40;
}

// Numbers that are near some limit, more often than chance would have them.
std::uint64_t nasty(std::mt19937_64& random) {
  switch (random() % 6) {
    case 0:
      return random() % 8;
    case 1:
      return ~std::uint64_t{0} - random() % 8;
    case 2:
      return std::uint64_t{1} << (random() % 64);
    case 3:
      return random() % (std::uint64_t{1} << 27);  // Places around the end of the arena.
    case 4:
      return random() & 0xff0fff;  // Kinds of calls.
    default:
      return random();
  }
}

// Each has a target and a word of it that it prefers: garbage everywhere is noticed too soon.
class Vandal {
 public:
  Vandal(Team& team, unsigned seed)
      : memory_(*team.memory()),
        rank_(team.rank()),
        random_(seed),
        target_(random_() % 7),
        field_(random_() % 6) {}

  void write() {
    Control& control = memory_.control(rank_);
    switch (target_ < 6 ? target_ : random_() % 6) {
      case 0:
        control.phase.store(nasty(random_));
        break;
      case 1:
        control.sleepers.store(static_cast<std::uint32_t>(nasty(random_)));
        control.bell.store(static_cast<std::uint32_t>(nasty(random_)));
        break;
      case 2:
        write(control.announcements[random_() % 2]);
        break;
      case 3:
        write(control.fate);
        break;
      case 4:
        memory_.sent_sizes(rank_, random_())[random_() % kRanks].store(nasty(random_));
        memory_.received_sizes(rank_, random_())[random_() % kRanks].store(nasty(random_));
        break;
      default:
        write_letters(static_cast<int>(random_() % kRanks));
    }
  }

 private:
  static constexpr std::size_t kWords = 5;

  // The head of the chain, or one of its first letters; a chain may become a ring.
  void write_letters(int to) {
    LetterBox& box = memory_.letter_box(rank_, to);
    auto place = box.first.load();
    if (field_ == 0) {
      box.first.store(random_() % 2 == 0 ? nasty(random_) : memory_.layout().arena);
    }
    for (auto skip = random_() % 4; skip > 0; --skip) {
      const auto* letter = letter_at(place);
      place = letter == nullptr || letter->next.load() == 0 ? place : letter->next.load();
    }
    if (Letter* letter = letter_at(place)) {
      write<4>(*letter);
    }
  }
  [[nodiscard]] Letter* letter_at(std::uint64_t place) const {
    return reinterpret_cast<Letter*>(memory_.at(rank_, place, sizeof(Letter), kLine));
  }

  template <std::size_t count = kWords, class Words>
  void write(Words& words) {
    static_assert(sizeof(Words) >= count * sizeof(Word));
    auto* word = reinterpret_cast<Word*>(&words);
    for (std::size_t i = 0; i < count; ++i) {
      if (field_ == kWords || i == field_) {
        word[i].store(nasty(random_));
      }
    }
  }

  Memory& memory_;
  int rank_;
  std::mt19937_64 random_;
  std::uint64_t target_;  // Or all.
  std::size_t field_;     // Or all.
};

Deadline shortly() { return Deadline::in(kPatience); }

// One collective or message, told by `which`, with buffers of exactly the right size.
void work(Team& team, Mailbox& mailbox, unsigned which) {
  const std::size_t count = std::array{1, 40, 3000, 20000}[which / 8 % 4];
  Ints values(count, team.rank());
  std::vector<Ints> lists(kRanks, Ints(count));
  std::vector<Output> outputs;
  std::vector<Input> inputs;
  std::vector<Tensor> tensors;
  for (auto& list : lists) {
    outputs.push_back(output_of(list));
    inputs.push_back(input_of(values));
    tensors.push_back(tensor_of(list));
  }
  switch (which % 8) {
    case 0:
      return all_reduce(team, tensor_of(values), kHostileSum, shortly());
    case 1: {
      const auto piece = allocate(team.memory(), team.rank(), count * 4);
      return all_reduce(team, {piece.get(), count}, kHostileSum, shortly());
    }
    case 2:
      return reduce_scatter(team, tensor_of(values).data, tensors, kHostileSum, shortly());
    case 3:
      return broadcast(team, tensor_of(values), DType::kInt32, 1, shortly());
    case 4:
      return all_gather(team, outputs, input_of(values), DType::kInt32, shortly());
    case 5:
      return all_to_all(team, outputs, inputs, DType::kInt32, shortly());
    case 6: {
      mailbox.send((team.rank() + 1) % kRanks, 3, input_of(values).data, input_of(values).bytes);
      const int source = which % 16 < 8 ? kAnySource : (team.rank() + kRanks - 1) % kRanks;
      auto buffer = std::make_shared<Ints>(count);
      const auto receipt = mailbox.post({.source = source,
                                         .tag = which % 2 == 0 ? std::uint64_t{3} : 0,
                                         .data = output_of(*buffer).data,
                                         .bytes = count * 4,
                                         .owner = buffer});
      return mailbox.wait(*receipt, shortly());
    }
    default:
      return barrier(team, shortly());
  }
}

// Until the group is broken, as it will be.
void honest(Team& team, unsigned seed) {
  Mailbox mailbox(team);
  std::mt19937 random(seed);  // The same for all.
  for (int i = 0; i < 30; ++i) {
    const auto deadline = Deadline::in(kPatience + kGrace);
    try {
      work(team, mailbox, static_cast<unsigned>(random()));
    } catch (const PeerError&) {
    } catch (const UsageError&) {
    }
    ASSERT_FALSE(deadline.passed()) << "seed " << seed << ", call " << i;
  }
}

// Plays by the rules, which gets the others further, while another thread of it does not.
void hostile(Team& team, unsigned seed, const std::function<bool()>& over) {
  std::thread vandal([&] {
    Vandal words(team, seed);
    const auto deadline = Deadline::in(kGrace);
    while (!over() && !deadline.passed()) {
      words.write();
      std::this_thread::yield();
    }
  });
  honest(team, seed);
  vandal.join();
}

TEST(ShmHostilePeer, CannotCrashOrStopThreads) {
  for (unsigned seed = 0; seed < seeds(); ++seed) {
    std::atomic<int> working{kRanks - 1};
    testing::on_threads(kRanks, [&](Team& team) {
      if (team.rank() == static_cast<int>(seed % kRanks)) {
        hostile(team, seed, [&] { return working.load() == 0; });
      } else {
        honest(team, seed);
        --working;
      }
    });
  }
}

TEST(ShmHostilePeer, CannotCrashOrStopProcesses) {
  for (unsigned seed = 0; seed < (seeds() + 3) / 4; ++seed) {  // Forking takes its time.
    const int rank = static_cast<int>(seed % kRanks);
    testing::on_processes(
        kRanks,
        [&](Team& team) {
          if (team.rank() == rank) {
            // The others' last word lies where this rank does not write.
            const auto standing = [&](int other) {
              return team.memory()->control(other).fate.standing.load();
            };
            hostile(team, seed, [&] {
              return standing((rank + 1) % kRanks) != 0 && standing((rank + 2) % kRanks) != 0;
            });
          } else {
            honest(team, seed);
          }
        },
        testing::small_options());
  }
}

}  // namespace
}  // namespace lockstep::shm
