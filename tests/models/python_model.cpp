#include "tests/models/python_model.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/ops/randn.h>
#include <gmock/gmock.h>
#include <zlib.h>

#include <cstdio>

#include "lockstep/base/fd.h"
#include "lockstep/base/text/text.h"
#include "tests/support/python.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::models {
namespace {

// A line for each tensor, as dump_models.py writes it.
class Lines {
 public:
  void add(const std::string& label, const at::Tensor& tensor) {
    std::vector<std::string> sizes;
    for (const std::int64_t size : tensor.sizes()) {
      sizes.push_back(std::to_string(size));
    }
    const at::Tensor whole = tensor.detach().contiguous();
    const auto sum =
        ::crc32_z(0, static_cast<const Bytef*>(whole.const_data_ptr()), whole.nbytes());
    char crc[16];
    std::snprintf(crc, sizeof crc, "%08lx", static_cast<unsigned long>(sum));
    lines_.push_back(label + ": " + (tensor.is_floating_point() ? "f" : "i") +
                     std::to_string(tensor.element_size()) + " [" + join(sizes, ", ") + "] " + crc);
  }
  [[nodiscard]] const std::vector<std::string>& all() const { return lines_; }

 private:
  std::vector<std::string> lines_;
};

// In the order of dump_models.py.
Lines lines_of(const Pair& pair) {
  Lines tensors;
  at::manual_seed(0);
  const Made net = pair.make();
  for (const auto& parameter : net.module->named_parameters()) {
    tensors.add("parameter " + parameter.key(), parameter.value());
  }
  for (const auto& buffer : net.module->named_buffers()) {
    tensors.add("buffer " + buffer.key(), buffer.value());
  }
  at::manual_seed(1);
  const at::Tensor inputs = at::randn(pair.input_shape);
  const at::Tensor output = net.forward(inputs);
  tensors.add("output", output);
  for (const auto& buffer : net.module->named_buffers()) {
    tensors.add("buffer " + buffer.key() + " after forward", buffer.value());
  }
  output.square().sum().backward();
  for (const auto& parameter : net.module->named_parameters()) {
    tensors.add("gradient " + parameter.key(), parameter.value().grad());
  }
  net.module->eval();
  tensors.add("output in eval mode", net.forward(inputs));
  return tensors;
}

void compare(const test::TemporaryFolder& folder, const Pair& pair) {
  SCOPED_TRACE(pair.name);
  const auto theirs = split(trim(read_file(folder.file(pair.name))), '\n');
  const auto ours = lines_of(pair).all();
  ASSERT_EQ(ours.size(), theirs.size());
  for (std::size_t i = 0; i < ours.size(); ++i) {
    EXPECT_EQ(ours[i], theirs[i]);
  }
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
