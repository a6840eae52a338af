#include "lockstep/checkpoint/pickle/writer.h"

#include <gmock/gmock.h>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/pickle/reader.h"
#include "tests/checkpoint/values.h"

namespace lockstep::checkpoint {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::string key_zero(const Tensor& /*tensor*/) { return "0"; }

TEST(WritePickle, IntegersHaveTheirShortestForm) {
  const auto pickle_of = [](std::int64_t number) {
    return write_pickle(Value(number), key_zero).substr(2);
  };
  EXPECT_EQ(pickle_of(255), "K\xFF.");
  EXPECT_EQ(pickle_of(256), std::string("M\0\1.", 4));
  EXPECT_EQ(pickle_of(-1), "J\xFF\xFF\xFF\xFF.");
  EXPECT_EQ(pickle_of(std::int64_t{1} << 31), std::string("\x8a\x05\0\0\0\x80\0.", 8));
  EXPECT_EQ(pickle_of(-(std::int64_t{1} << 39)), std::string("\x8a\x05\0\0\0\0\x80.", 8));
}

TEST(WritePickle, AReaderGetsBackWhatWasWritten) {
  std::vector<Entry> many;
  for (int i = 0; i < 2500; ++i) {  // More than a batch, and more than the short memo.
    many.push_back({"key" + std::to_string(i), List{i, Tuple{{i, i, i, i}}, Bytes{"\x80\xFF"}}});
  }
  const std::string pickle = write_pickle(Dict(many), key_zero);
  const Value root = read_pickle("'f'", as_bytes(pickle), {});
  ASSERT_EQ(root.get_if<Dict>()->size(), 2500U);
  EXPECT_EQ(write_pickle(root, key_zero), pickle);
}

// What pickle.dumps(collections.Counter({3: 1, 300: 2}), protocol=2) gives.
TEST(WritePickle, ACounterIsPythons) {
  const std::string pickle = write_pickle(Counter{{{3, 1}, {300, 2}}}, key_zero);
  EXPECT_EQ(pickle, std::string("\x80\x02"
                                "ccollections\nCounter\nq\x00}q\x01(K\x03K\x01M,\x01K\x02u"
                                "\x85q\x02Rq\x03.",
                                46));
  const Value root = read_pickle("'f'", as_bytes(pickle), {});
  EXPECT_EQ(write_pickle(root, key_zero), pickle);
}

TEST(WritePickle, ASymbolWithoutAWayBackIsAnError) {
  EXPECT_THAT([] { write_pickle(Other{"complex", "1j"}, key_zero); },
              ThrowsMessage<UsageError>(HasSubstr("'complex' of '1j' cannot be written")));
}

TEST(WritePickle, ADeviceHasANumber) {
  EXPECT_NO_THROW(write_pickle(Other{"torch.device", "cuda:1"}, key_zero));
  for (const char* device : {"a:b", "cuda:", "cuda:1x", "cuda:99999999999999999999"}) {
    EXPECT_THAT([&] { write_pickle(Other{"torch.device", device}, key_zero); },
                ThrowsMessage<UsageError>(HasSubstr("the device '" + std::string(device) + "'")));
  }
}

TEST(WritePickle, TextThatPythonCannotReadIsAnError) {
  EXPECT_THAT([] { write_pickle(Value("a\xFF"), key_zero); },
              ThrowsMessage<UsageError>(HasSubstr("no UTF-8")));
  EXPECT_NO_THROW(write_pickle(Value("\xF0\x9F\x98\x80 \xE2\x82\xAC \xC3\xBC"), key_zero));
}

}  // namespace
}  // namespace lockstep::checkpoint
