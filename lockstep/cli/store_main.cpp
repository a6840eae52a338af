// lockstep-store: serves the store of a job until `lockstep run` ends it.
#include "lockstep/comm/store_server.h"

int main(int argc, char** argv) { return lockstep::comm::store_main(argc, argv); }
