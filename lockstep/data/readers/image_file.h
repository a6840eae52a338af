// The bytes of an image file, which may be anything that has such a name.
#pragma once

#include <string>

namespace lockstep::data {

// The bytes of the file. If it does not begin like an image, only its first 4 KiB, which are enough
// to say so. Throws IoError if it cannot be read, is no regular file (a pipe would be waited
// for), or has more than 1 GiB, and NotTheFile if the process or machine is in trouble instead. The
// error says why; the caller knows the path.
std::string read_image_file(const std::string& path);

}  // namespace lockstep::data
