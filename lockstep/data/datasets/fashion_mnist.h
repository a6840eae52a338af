// Fashion-MNIST: 60,000 + 10,000 grey images of 28x28 in ten classes.
//
// MNIST itself has the same files under the same names and can be read too.
#pragma once

#include <optional>
#include <string>

#include "lockstep/data/datasets/image_dataset.h"

namespace lockstep::data {

enum class Split { kTrain, kTest };

// Where Debian's package dataset-fashion-mnist puts the files.
inline constexpr const char* kFashionMnistFolder = "/usr/share/datasets/fashion-mnist";

// Reads train-images-idx3-ubyte and train-labels-idx1-ubyte, or t10k-..., plain or with .gz. Throws
// IoError if a file is missing or damaged, or if the two do not fit each other.
ImageDataset fashion_mnist(const std::string& folder, Split split,
                           const Normalization& normalization = {});

// The folder, if it has all four files.
std::optional<std::string> find_fashion_mnist(const std::string& folder = kFashionMnistFolder);

}  // namespace lockstep::data
