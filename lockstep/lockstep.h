// All of lockstep: the header that a program includes.
#pragma once

#include <torch/torch.h>

#include "lockstep/base/error.h"
#include "lockstep/comm/group.h"
#include "lockstep/comm/init_process_group.h"
#include "lockstep/comm/make_backend.h"
#include "lockstep/comm/spawn.h"
#include "lockstep/data/distributed_sampler.h"
#include "lockstep/data/fashion_mnist.h"
#include "lockstep/data/generated_images.h"
#include "lockstep/data/image_dataset.h"
#include "lockstep/data/read_idx.h"
#include "lockstep/models/convnet.h"
#include "lockstep/models/mlp.h"
#include "lockstep/models/resnet.h"
#include "lockstep/parallel/distributed_data_parallel.h"
