// lockstep-train: the trainer with the networks that lockstep has.
#include "lockstep/train/main.h"

int main(int argc, char** argv) { return lockstep::train::main(argc, argv); }
