// Which folder inside a folder of images trains, which validates and which is the final test.
#pragma once

#include <string>
#include <vector>

namespace lockstep::train {

struct FolderLayout {
  std::string train;                  // The folder itself if it has a folder for each class.
  std::string validation;             // Empty: a part of what trains is set aside.
  std::string test;                   // Empty: there is none.
  std::vector<std::string> warnings;  // Which folders are not used.
};

// By the names train (or training), val (or valid, validation) and test (or testing), in large or
// small letters; without one for validation the test validates. A folder "train" of images alone is
// a class if there are several others beside it. Throws UsageError if no part trains, and with the
// right path if the files of a data set lie one folder below.
FolderLayout folder_layout(const std::string& root);

// Throws UsageError that says what is expected unless there are folders in it for two classes.
void require_class_folders(const std::string& root);

}  // namespace lockstep::train
