// CIFAR-10 and CIFAR-100: 50,000 + 10,000 colour images of 32x32 in 10 or 100 classes.
#pragma once

#include <string>

#include "lockstep/data/datasets/fashion_mnist.h"
#include "lockstep/data/datasets/image_dataset.h"

namespace lockstep::data {

// Reads data_batch_1.bin to data_batch_5.bin, or test_batch.bin: the "binary version" of the
// data set. Throws IoError if a file is missing or damaged.
ImageDataset cifar10(const std::string& folder, Split split,
                     const Normalization& normalization = {});

// Reads train.bin or test.bin; the labels are the fine ones. Throws IoError likewise.
ImageDataset cifar100(const std::string& folder, Split split,
                      const Normalization& normalization = {});

}  // namespace lockstep::data
