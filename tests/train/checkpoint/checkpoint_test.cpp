#include "lockstep/train/checkpoint/checkpoint.h"

#include <ATen/Parallel.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>

#include "lockstep/base/error.h"
#include "lockstep/train/checkpoint/checkpoint_writer.h"
#include "tests/checkpoint/faulty_files.h"
#include "tests/parity/tensor_file.h"
#include "tests/support/python.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/checkpoint/toy.h"

namespace lockstep {
namespace {

using checkpoint::Dict;
using test::TemporaryFolder;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr int kHalf = 25;
constexpr int kEnd = 75;  // 50 steps after the change of sides.

void run(const std::string& what, const TemporaryFolder& folder) {
  test::run_python("train/checkpoint/run_checkpoint.py", {what, folder.path});
}

void expect_equal(const StateDict& state, const parity::Tensors& expected, const char* what) {
  ASSERT_EQ(state.size(), expected.size());
  for (const auto& [name, tensor] : state) {
    EXPECT_TRUE(tensor.equal(expected.at(name))) << what << " " << name;
  }
}

TEST(Checkpoint, WeGoOnFromPythonsBitForBit) {
  at::set_num_threads(1);
  const TemporaryFolder folder;
  run("save", folder);
  for (const char* name : {"sgd", "adamw"}) {
    auto net = toy_network();
    torch::manual_seed(99);
    for (auto& parameter : net->parameters()) {
      parameter.data().normal_();  // Nothing is right by chance.
    }
    auto optimizer = toy_optimizer(name, net);
    const auto loaded = load_checkpoint(folder.path + "/python_" + name + ".pt");
    const Checkpoint& saved = loaded.checkpoint;
    EXPECT_EQ(saved.epoch, kHalf);
    EXPECT_EQ(*saved.args.find("model")->get_if<std::string>(), "toy");
    EXPECT_EQ(*saved.lr_scheduler.find("last_epoch")->get_if<std::int64_t>(), 2);
    load_state_dict(*net, saved.model);
    optimizer->load_state_dict(saved.optimizer.value());
    train_toy(net, *optimizer, kHalf, kEnd);
    expect_equal(state_dict(*net), parity::read(folder.path + "/" + name + ".weights"), name);
  }
}

TEST(Checkpoint, PythonGoesOnFromOursBitForBit) {
  at::set_num_threads(1);
  const TemporaryFolder folder;
  for (const char* name : {"sgd", "adamw"}) {
    auto net = toy_network();
    auto optimizer = toy_optimizer(name, net);
    train_toy(net, *optimizer, 0, kHalf);
    torch::manual_seed(11);
    Checkpoint checkpoint;
    checkpoint.model = state_dict(*net);
    checkpoint.optimizer = optimizer->state_dict();
    checkpoint.epoch = kHalf;
    checkpoint.args = Dict{{"lr", 0.1}};
    checkpoint.class_names = {"cat", "dög"};
    checkpoint.mean = {0.5};
    checkpoint.sampler = data::SamplerPosition{3, 1, 40};
    checkpoint.rng = rng_state();
    CheckpointWriter writer(folder.path + "/ours_" + name);
    writer.save(checkpoint);
    // While the file is written.
    train_toy(net, *optimizer, kHalf, kEnd);
    writer.wait();
    parity::Tensors weights;
    for (const auto& [key, tensor] : state_dict(*net)) {
      weights[key] = tensor.clone();
    }
    parity::write(folder.path + "/" + name + ".ours", weights);
  }
  run("resume", folder);
  for (const char* name : {"sgd", "adamw"}) {
    const auto ours = parity::read(folder.path + "/" + name + ".ours");
    const auto theirs = parity::read(folder.path + "/" + name + ".resumed");
    ASSERT_EQ(ours.size(), theirs.size());
    for (const auto& [key, tensor] : ours) {
      EXPECT_TRUE(tensor.equal(theirs.at(key))) << name << " " << key;
    }
  }
}

TEST(Checkpoint, TensorsThatTorchLoadReadsAreRead) {
  const TemporaryFolder folder;
  run("tensors", folder);
  const auto expected = load_checkpoint(folder.path + "/bytes.pt").checkpoint.model;
  for (const char* name : {"tensors.pt", "protocol3.pt"}) {
    const auto model = load_checkpoint(folder.path + "/" + name).checkpoint.model;
    ASSERT_EQ(model.size(), 13U);
    for (std::size_t i = 0; i < model.size(); ++i) {
      const auto plain = model[i].second.detach().resolve_conj().resolve_neg().contiguous();
      EXPECT_EQ(model[i].first, expected[i].first);
      EXPECT_TRUE(plain.view(at::kByte).equal(expected[i].second)) << name << " " << model[i].first;
    }
  }
  const auto expect_refused = [&](const char* file, const char* kind, const char* advice) {
    EXPECT_THAT([&] { load_checkpoint(folder.path + "/" + file); },
                ThrowsMessage<IoError>(AllOf(HasSubstr(std::string("'0.weight' is a ") + kind),
                                             HasSubstr(advice), HasSubstr(file))));
  };
  expect_refused("sparse.pt", "sparse", "to_dense()");
  expect_refused("csr.pt", "sparse", "to_dense()");
  expect_refused("quantized.pt", "quantized", "dequantize()");
  expect_refused("channels.pt", "quantized", "dequantize()");
  expect_refused("meta.pt", "meta", "contents");
}

TEST(Checkpoint, FilesOfEachKindAreRead) {
  const TemporaryFolder folder;
  run("kinds", folder);
  auto net = toy_network();
  const auto expected = state_dict(*toy_network());
  for (const char* name :
       {"plain.pt", "ddp.pt", "timm.pt", "named.pt", "tutorial.pt", "optimizers.pt", "compiled.pt",
        "compiled_ddp.pt", "ddp_compiled.pt", "part.pt"}) {
    for (auto& parameter : net->parameters()) {
      parameter.data().zero_();
    }
    const auto loaded = load_checkpoint(folder.path + "/" + name);
    load_state_dict(*net, loaded.checkpoint.model);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_TRUE(state_dict(*net)[i].second.equal(expected[i].second)) << name << " " << i;
    }
  }
  const auto timm = load_checkpoint(folder.path + "/timm.pt").checkpoint;
  EXPECT_TRUE(timm.model_ema.at(0).second.equal(expected.at(0).second + 1));
  EXPECT_EQ(timm.epoch, 4);
  EXPECT_EQ(timm.others.size(), 3U);  // arch, metric, version
  const auto tutorial = load_checkpoint(folder.path + "/tutorial.pt").checkpoint;
  EXPECT_EQ(tutorial.optimizer.value().param_groups.size(), 1U);
  EXPECT_EQ(tutorial.others.size(), 1U);  // loss
  const auto named = load_checkpoint(folder.path + "/named.pt").checkpoint;
  EXPECT_EQ(*checkpoint::Value(named.others).find("model")->get_if<std::string>(), "toy");
  const auto optimizers = load_checkpoint(folder.path + "/optimizers.pt").checkpoint;
  EXPECT_FALSE(optimizers.optimizer.has_value());
  EXPECT_NE(checkpoint::Value(optimizers.others).find("optimizer"), nullptr);
  EXPECT_THAT([&] { load_checkpoint(folder.path + "/other.pt"); },
              ThrowsMessage<IoError>(HasSubstr("its keys are 'weights'")));
  EXPECT_THAT([&] { load_checkpoint(folder.path + "/legacy.pt"); },
              ThrowsMessage<IoError>(HasSubstr("convert it: python -c")));
  EXPECT_THAT([&] { load_checkpoint(folder.path + "/script.pt"); },
              ThrowsMessage<IoError>(HasSubstr("TorchScript")));
}

// What the error says to type works, also for what weights_only=True refuses.
TEST(Checkpoint, TheLineThatConvertsOldFilesDoes) {
  const TemporaryFolder folder;
  run("legacy", folder);
  const auto expected = state_dict(*toy_network());
  for (const char* name : {"legacy.pt", "namespace.pt", "protocol4.pt", "pickle.pt", "it's.pt"}) {
    std::string error;
    try {
      load_checkpoint(folder.path + "/" + name);
    } catch (const IoError& caught) {
      error = caught.what();
    }
    const std::string before = "convert it: python -c ";
    ASSERT_THAT(error, HasSubstr(before)) << name;
    const auto line = "cd '" + folder.path + "' && '" LOCKSTEP_TEST_PYTHON "' -c " +
                      error.substr(error.find(before) + before.size());
    ASSERT_EQ(std::system(line.c_str()), 0) << line;
    const auto model = load_checkpoint(folder.path + "/new.pt").checkpoint.model;
    ASSERT_EQ(model.size(), expected.size()) << name;
    EXPECT_TRUE(model[0].second.equal(expected[0].second)) << name;
    std::filesystem::remove(folder.path + "/new.pt");
  }
}

TEST(Checkpoint, ATensorThatSafetensorsCannotNameIsRefused) {
  const TemporaryFolder folder;
  EXPECT_THAT(
      [&] {
        save_safetensors(folder.path + "/a.safetensors", {{"__metadata__", at::full({1}, 1.0F)}});
      },
      ThrowsMessage<UsageError>(HasSubstr("'__metadata__'")));
  EXPECT_TRUE(folder.names().empty());
}

TEST(Checkpoint, SafetensorsAreWrittenAndReadAsTheLibraryDoes) {
  const TemporaryFolder folder;
  const auto path = folder.path + "/model.safetensors";
  auto state = state_dict(*toy_network());
  const auto bits = at::arange(16, at::kByte).remainder(2);
  for (const auto& [name, type] : {std::pair("float32", at::kFloat),
                                   {"float64", at::kDouble},
                                   {"float16", at::kHalf},
                                   {"bfloat16", at::kBFloat16},
                                   {"int64", at::kLong},
                                   {"int32", at::kInt},
                                   {"int16", at::kShort},
                                   {"int8", at::kChar},
                                   {"uint8", at::kByte},
                                   {"bool", at::kBool},
                                   {"complex64", at::kComplexFloat},
                                   {"uint16", at::kUInt16},
                                   {"uint32", at::kUInt32},
                                   {"uint64", at::kUInt64},
                                   {"float8_e4m3fn", at::kFloat8_e4m3fn},
                                   {"float8_e5m2", at::kFloat8_e5m2},
                                   {"float8_e4m3fnuz", at::kFloat8_e4m3fnuz},
                                   {"float8_e5m2fnuz", at::kFloat8_e5m2fnuz},
                                   {"float8_e8m0fnu", at::kFloat8_e8m0fnu}}) {
    state.emplace_back(name, bits.view(type).clone());
  }
  auto ours = state;
  ours.emplace_back("transposed", at::randn({2, 3}).t());
  save_safetensors(path, ours);
  run("safetensors", folder);  // Python compares it with its own, and writes those.
  const auto expect_read = [](const std::string& file, const StateDict& expected) {
    const auto loaded = load_checkpoint(file).checkpoint.model;
    const std::map<std::string, at::Tensor> by_name(loaded.begin(), loaded.end());
    ASSERT_EQ(by_name.size(), expected.size());
    for (const auto& [name, tensor] : expected) {
      ASSERT_EQ(by_name.at(name).scalar_type(), tensor.scalar_type()) << name;
      const auto bytes = [](const at::Tensor& any) {
        return any.contiguous().reshape(-1).view(at::kByte);
      };
      EXPECT_TRUE(bytes(by_name.at(name)).equal(bytes(tensor))) << name;
    }
  };
  expect_read(path, ours);
  expect_read(folder.path + "/theirs.safetensors", state);
}

checkpoint::Tensor copied(const at::Tensor& tensor, const char* location) {
  auto owner = std::make_shared<at::Tensor>(tensor.clone());
  const std::span bytes(static_cast<const std::byte*>(owner->data_ptr()), owner->nbytes());
  return {checkpoint::DType::kFloat32,
          owner->sizes().vec(),
          owner->strides().vec(),
          0,
          false,
          std::make_shared<checkpoint::Storage>(checkpoint::Storage{bytes, location, owner})};
}

TEST(Checkpoint, TensorsGoWhereMapLocationSays) {
  const checkpoint::Value root = Dict{{"a", copied(at::full({2}, 1.5F), "cuda:7")}};
  const auto device = [&](const MapLocation& map_location) {
    return from_value("f", root, map_location).model.at(0).second.device().str();
  };
  EXPECT_EQ(device("cpu"), "cpu");
  EXPECT_EQ(device({{"cuda:7", "cpu"}}), "cpu");
  EXPECT_EQ(device([](const std::string& location) {
              EXPECT_EQ(location, "cuda:7");
              return at::kCPU;
            }),
            "cpu");
  EXPECT_THAT([&] { device({}); }, ThrowsMessage<UsageError>(AllOf(
                                       HasSubstr("'f': 'a': "), HasSubstr("saved from 'cuda:7'"),
                                       HasSubstr("give a map_location"))));
}

TEST(Checkpoint, AKeyOfAnotherKindIsNamed) {
  const auto expect = [](const char* key, checkpoint::Value value, const char* what) {
    const checkpoint::Value root = Dict{{"model", Dict{}}, {key, std::move(value)}};
    EXPECT_THAT([&] { from_value("f.pt", root); },
                ThrowsMessage<IoError>(AllOf(HasSubstr("'f.pt'"), HasSubstr(what))));
  };
  expect("epoch", "three", "'epoch' is text, expected an integer");
  expect("model_ema", Dict{{std::string("a\0b", 3), 1}}, "'model_ema.a?b' is an integer");
  expect("optimizer", 1, "the optimizer's state has no 'state'");
  expect("class_names", checkpoint::List{1},
         "'class_names' is an integer, expected a list of text");
  expect("sampler", Dict{}, "seed, epoch and consumed");
  expect("rng", 1, "'rng' is an integer, expected a dictionary with 'cpu'");
  expect("model_ema", Dict{{"x", 1}}, "'model_ema.x' is an integer");
  EXPECT_THAT([] { from_value("f.pt", checkpoint::Value(1)); },
              ThrowsMessage<IoError>(HasSubstr("an integer in it, expected a dictionary")));
}

TEST(Checkpoint, KeysOfOtherProgramsAreLeftToTheCaller) {
  const checkpoint::Value root = Dict{{"model", Dict{{"head._extra_state", "text"}}},
                                      {"mean", checkpoint::Tuple{{1, 0.5}}},
                                      {"std", "unknown"},
                                      {"epoch", 2.5},
                                      {"rng", Dict{{"cpu", 1}}},
                                      {"sampler", Dict{{"indices", checkpoint::List{}}}},
                                      {"class_names", Dict{{0, "cat"}}}};
  const auto loaded = from_value("f.pt", root, {}, checkpoint::Format::kTorch);
  const checkpoint::Value plain =
      Dict{{"w", copied(at::full({2}, 1.5F), "cpu")}, {"_extra_state", Dict{}}};
  EXPECT_EQ(from_value("f.pt", plain, {}, checkpoint::Format::kTorch).model.size(), 1U);
  EXPECT_TRUE(loaded.model.empty());
  EXPECT_THAT(loaded.mean, ElementsAre(1, 0.5));
  std::vector<std::string> others;
  for (const auto& entry : loaded.others) {
    others.push_back(*entry.key.get_if<std::string>());
  }
  EXPECT_THAT(others, ElementsAre("std", "epoch", "rng", "sampler", "class_names"));
  EXPECT_FALSE(loaded.epoch || loaded.sampler || !loaded.rng.cpu.empty());
}

// As files had it before every rank was in them.
TEST(Checkpoint, TheGeneratorOfOneRankAloneIsRead) {
  const checkpoint::Value root =
      Dict{{"model", Dict{}}, {"rng", copied(at::full({3}, 1.5F), "cpu")}};
  EXPECT_EQ(from_value("f", root).rng.cpu.at(0).numel(), 3);
}

}  // namespace
}  // namespace lockstep
