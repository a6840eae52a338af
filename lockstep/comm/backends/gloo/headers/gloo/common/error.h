#pragma once
#include <gloo/declarations.h>  // NOLINT: stands in for Gloo's own header of this name.
