// Arrays in the idx format of MNIST, as bytes: no tensors here, so that the parser is built and
// fuzzed without torch.
//
// A file is 0 0, a type, the number of dimensions, each dimension as a big-endian 32-bit number,
// and the elements, big-endian; gzip around it is taken off. A file may be hostile: memory is
// taken for what it really holds, whatever it announces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::data {

// The third byte of a file.
enum class IdxType : std::uint8_t {
  kUint8 = 0x08,
  kInt8 = 0x09,
  kInt16 = 0x0b,
  kInt32 = 0x0c,
  kFloat32 = 0x0d,
  kFloat64 = 0x0e,
};

struct IdxArray {
  IdxType type = IdxType::kUint8;
  std::vector<std::int64_t> sizes;
  std::vector<std::byte> bytes;  // In the byte order of this machine.
};

// Throws IoError, naming path and place, unless the file is exactly one array.
IdxArray load_idx(const std::string& path);

}  // namespace lockstep::data
