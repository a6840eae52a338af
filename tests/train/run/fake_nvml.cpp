// Stands in for the NVIDIA driver's library: a GPU at one address. FAKE_NVML makes it fail.
#include <cstdlib>
#include <cstring>

namespace {

bool fails(const char* what) {
  const char* asked = std::getenv("FAKE_NVML");
  return asked != nullptr && std::strcmp(asked, what) == 0;
}

int gpu = 0;

}  // namespace

extern "C" {

struct Utilization {
  unsigned gpu;
  unsigned memory;
};
struct Memory {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};

int nvmlInit_v2() { return fails("init") ? 9 : 0; }
int nvmlShutdown() { return 0; }
const char* nvmlErrorString(int error) { return error == 9 ? "Driver Not Loaded" : "Not Found"; }

int nvmlDeviceGetHandleByPciBusId_v2(const char* id, void** device) {
  *device = &gpu;
  return std::strcmp(id, "0000:3b:00.0") == 0 ? 0 : 6;
}

int nvmlDeviceGetUtilizationRates(void* device, Utilization* utilization) {
  *utilization = {97, 40};
  return device == &gpu && !fails("utilization") ? 0 : 3;
}

int nvmlDeviceGetMemoryInfo(void* device, Memory* memory) {
  *memory = {8ULL << 30, 5ULL << 30, 3ULL << 30};
  return device == &gpu && !fails("memory") ? 0 : 3;
}

int nvmlDeviceGetPowerUsage(void* device, unsigned* milliwatts) {
  *milliwatts = 612'500;
  return device == &gpu && !fails("power") ? 0 : 3;
}
}
