#include "lockstep/net/link.h"

#include <gmock/gmock.h>

#include <cstring>
#include <thread>

namespace lockstep::net {
namespace {

struct Pair {
  Pair() : listener(listen_on({"127.0.0.1", 0})), here(Endpoint{"127.0.0.1", listener.port}) {
    there.emplace(accept_on(listener).fd);
  }
  Listener listener;
  Link here;
  std::optional<Link> there;
};

TEST(Link, CarriesFramesAndPayloadsThatDoNotFitIntoTheKernelAtOnce) {
  Pair pair;
  std::vector<std::byte> payload(std::size_t{32} << 20);
  for (std::size_t i = 0; i < payload.size(); ++i) {
    payload[i] = static_cast<std::byte>(i % 251);
  }
  bool sent = false;
  pair.here.push({.kind = Frame::Kind::kPayload, .bytes = payload.size(), .id = 3}, payload,
                 [&] { sent = true; });
  pair.here.push({.kind = Frame::Kind::kLeft});
  std::vector<std::byte> got;
  std::vector<Frame::Kind> kinds;
  const Link::Receiver receiver{
      .begin =
          [&](Link&, const Frame& frame) {
            got.resize(std::max<std::size_t>(got.size(), frame.bytes));
            return got.data();
          },
      .end = [&](Link&, const Frame& frame) { kinds.push_back(frame.kind); }};
  pair.here.write();
  EXPECT_FALSE(sent) << "nobody has read it";
  while (kinds.size() < 2) {
    pair.here.write();
    pair.there->read(receiver);
  }
  EXPECT_TRUE(sent);
  EXPECT_EQ(got, payload);
  EXPECT_THAT(kinds, ::testing::ElementsAre(Frame::Kind::kPayload, Frame::Kind::kLeft));
}

TEST(Link, SaysWhyItIsNotOpenAnyMore) {
  Pair pair;
  pair.there.reset();
  while (pair.here.is_open()) {
    pair.here.write();
    pair.here.read({});
  }
  EXPECT_EQ(pair.here.why(), "it ended the connection");
}

TEST(Link, NobodyListens) {
  int port = 0;
  {
    const auto listener = listen_on({"127.0.0.1", 0});
    port = listener.port;
  }
  Link link(Endpoint{"127.0.0.1", port});
  link.push({.kind = Frame::Kind::kHello});
  while (link.is_open()) {
    link.write();
  }
  EXPECT_THAT(link.why(), ::testing::HasSubstr("refused"));
}

}  // namespace
}  // namespace lockstep::net
