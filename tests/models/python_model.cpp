#include "tests/models/python_model.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/ops/randn.h>
#include <gmock/gmock.h>

#include <string_view>

#include "lockstep/base/fd.h"
#include "lockstep/base/text.h"
#include "tests/support/child.h"
#include "tests/support/python.h"

namespace lockstep::models {
namespace {

struct Tensors {
  void add(const std::string& label, const at::Tensor& tensor) {
    std::vector<std::string> sizes;
    for (const std::int64_t size : tensor.sizes()) {
      sizes.push_back(std::to_string(size));
    }
    const at::Tensor whole = tensor.detach().contiguous();
    labels.push_back(label + ": " + (tensor.is_floating_point() ? "f" : "i") +
                     std::to_string(tensor.element_size()) + " [" + join(sizes, ", ") + "]");
    content.emplace_back(static_cast<const char*>(whole.const_data_ptr()), whole.nbytes());
  }

  std::vector<std::string> labels;
  std::vector<std::string> content;
};

// In the order of dump_models.py.
Tensors tensors_of(const Pair& pair) {
  Tensors tensors;
  at::manual_seed(0);
  const Network net = pair.make();
  for (const auto& parameter : net.module->named_parameters()) {
    tensors.add("parameter " + parameter.key(), parameter.value());
  }
  for (const auto& buffer : net.module->named_buffers()) {
    tensors.add("buffer " + buffer.key(), buffer.value());
  }
  at::manual_seed(1);
  const at::Tensor output = net.forward(at::randn(pair.input_shape));
  tensors.add("output", output);
  for (const auto& buffer : net.module->named_buffers()) {
    tensors.add("buffer " + buffer.key() + " after forward", buffer.value());
  }
  output.square().sum().backward();
  for (const auto& parameter : net.module->named_parameters()) {
    tensors.add("gradient " + parameter.key(), parameter.value().grad());
  }
  return tensors;
}

void compare(const test::TemporaryFolder& folder, const Pair& pair) {
  SCOPED_TRACE(pair.name);
  const auto labels = split(trim(read_file(folder.file(pair.name + ".labels"))), '\n');
  const std::string content = read_file(folder.file(pair.name + ".bin"), std::size_t{1} << 30);
  const Tensors ours = tensors_of(pair);
  ASSERT_EQ(ours.labels, labels);
  std::string_view rest = content;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const std::string& bytes = ours.content[i];
    EXPECT_TRUE(rest.substr(0, bytes.size()) == bytes) << labels[i] << " has other bits";
    rest.remove_prefix(std::min(rest.size(), bytes.size()));
  }
  EXPECT_TRUE(rest.empty());
}

}  // namespace

void expect_bits_of_python(const std::vector<Pair>& pairs) {
  const test::TemporaryFolder folder;
  std::vector<std::string> arguments{folder.file("")};
  for (const auto& pair : pairs) {
    arguments.push_back(pair.name);
  }
  test::run_python("models/dump_models.py", arguments);
  at::set_num_threads(1);
  for (const auto& pair : pairs) {
    compare(folder, pair);
  }
}

}  // namespace lockstep::models
