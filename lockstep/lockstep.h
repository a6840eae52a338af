// All of lockstep: the header that a program includes.
#pragma once

#include <torch/torch.h>

#include "lockstep/base/error.h"
#include "lockstep/comm/group.h"
#include "lockstep/comm/init_process_group.h"
#include "lockstep/comm/spawn.h"
#include "lockstep/models/convnet.h"
#include "lockstep/models/mlp.h"
#include "lockstep/models/resnet.h"
