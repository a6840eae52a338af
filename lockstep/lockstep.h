// All of lockstep: the header that a program includes.
#pragma once

#include <torch/torch.h>

#include "lockstep/base/error.h"
#include "lockstep/comm/group.h"
#include "lockstep/comm/init_process_group.h"
#include "lockstep/comm/make_backend.h"
#include "lockstep/comm/spawn.h"
#include "lockstep/data/datasets/fashion_mnist.h"
#include "lockstep/data/datasets/generated_images.h"
#include "lockstep/data/datasets/image_dataset.h"
#include "lockstep/data/datasets/read_idx.h"
#include "lockstep/data/samplers/batch_sampler.h"
#include "lockstep/data/samplers/distributed_sampler.h"
#include "lockstep/data/samplers/global_batch.h"
#include "lockstep/data/samplers/random_samplers.h"
#include "lockstep/data/samplers/sampler.h"
#include "lockstep/device/graphed_step.h"
#include "lockstep/models/convnet.h"
#include "lockstep/models/mlp.h"
#include "lockstep/models/resnet.h"
#include "lockstep/parallel/distributed_data_parallel.h"
