// Files for `lockstep bench loader` where no data set is given.
#pragma once

#include <string>

namespace lockstep::bench {

// So many JPEGs in FOLDER/c0 to c9, of 500 x 375 pixels and some 100 kB as in ImageNet: smooth
// parts, edges, grain, other ones in each file. The same bytes on every machine.
void make_photos(const std::string& folder, int count);
// The same of 1600 x 1200 pixels, as cameras make them: for decoding at reduced scale.
void make_large_photos(const std::string& folder, int count);

// So many tiny JPEGs in FOLDER/c000 to c999, hard links to a few files: for what is slow because
// there are many.
void make_small_files(const std::string& folder, int count);

}  // namespace lockstep::bench
