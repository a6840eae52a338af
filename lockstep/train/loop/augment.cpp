#include "lockstep/train/loop/augment.h"

#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/data/transforms/get_params.h"

namespace lockstep::train {

data::Sample erase_boxes(data::Sample batch, double p, data::SampleRandom& random) {
  const data::Size size{batch.data.size(2), batch.data.size(3)};
  for (std::int64_t i = 0; i < batch.data.size(0); ++i) {
    if (const auto box = get_params(data::RandomErasing{.p = p}, size, random)) {
      batch.data.select(0, i)
          .narrow(1, box->top, box->height)
          .narrow(2, box->left, box->width)
          .zero_();
    }
  }
  return batch;
}

data::BatchTransform batch_transform(const TrainConfig& config, const DataSource& source) {
  if (config.reprob == 0 && config.mixup == 0 && config.cutmix == 0) {
    return {};
  }
  if (source.is_table()) {
    throw UsageError("--mixup, --cutmix and --reprob change images, but " + source.description +
                     " is a table; leave them out");
  }
  std::vector<data::BatchTransform> mixes;
  if (config.mixup > 0) {
    mixes.emplace_back(data::MixUp{config.mixup, source.num_classes});
  }
  if (config.cutmix > 0) {
    mixes.emplace_back(data::CutMix{config.cutmix, source.num_classes});
  }
  const double erase = source.train->is_in_memory() ? config.reprob : 0;
  data::BatchTransform mix;
  if (!mixes.empty()) {
    mix = data::RandomChoice(std::move(mixes));
  }
  return [erase, mix](data::Sample batch, data::SampleRandom& random) {
    if (erase > 0) {
      batch = erase_boxes(std::move(batch), erase, random);
    }
    return mix ? mix(std::move(batch), random) : batch;
  };
}

}  // namespace lockstep::train
