#include "lockstep/data/datasets/cifar_dataset.h"

#include <ATen/ops/from_blob.h>

#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/data/readers/cifar.h"

namespace lockstep::data {
namespace {

ImageDataset load_cifar_files(const std::string& folder, const std::vector<std::string>& names,
                              CifarKind kind, const Normalization& normalization) {
  CifarRecords records;
  std::size_t first = 0;  // Images in the first file.
  for (const std::string& name : names) {
    const std::size_t before = records.labels.size();
    load_cifar(folder + "/" + name, kind, records);
    const std::size_t images = records.labels.size() - before;
    first = before == 0 ? images : first;
    if (images != first) {
      throw IoError("'" + folder + "/" + name + "' has " + std::to_string(images) +
                    " images and '" + folder + "/" + names[0] + "' has " + std::to_string(first) +
                    ", expected as many in each; is the file whole?");
    }
  }
  const auto count = static_cast<std::int64_t>(records.labels.size());
  const at::Tensor images =
      at::from_blob(records.images.data(), {count, 3, 32, 32}, at::TensorOptions(at::kByte));
  const at::Tensor labels =
      at::from_blob(records.labels.data(), {count}, at::TensorOptions(at::kByte));
  return {images.clone(),
          labels,
          {.num_classes = kind == CifarKind::kCifar10 ? 10 : 100, .normalization = normalization}};
}

}  // namespace

ImageDataset cifar10(const std::string& folder, Split split, const Normalization& normalization) {
  std::vector<std::string> names;
  if (split == Split::kTrain) {
    names = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
             "data_batch_5.bin"};
  } else {
    names = {"test_batch.bin"};
  }
  return load_cifar_files(folder, names, CifarKind::kCifar10, normalization);
}

ImageDataset cifar100(const std::string& folder, Split split, const Normalization& normalization) {
  return load_cifar_files(folder, {split == Split::kTrain ? "train.bin" : "test.bin"},
                          CifarKind::kCifar100, normalization);
}

}  // namespace lockstep::data
