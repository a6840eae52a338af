"""Plants faults in a small tree and expects cmake/check_layers.py to name each."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

CHECK = Path(__file__).parents[1] / "cmake" / "check_layers.py"


class CheckLayers(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.write("lockstep/base/fd.h", "#pragma once\n#include <string>\n")
        self.write("lockstep/base/fd.cpp", '#include "lockstep/base/fd.h"\n')
        self.write("tests/base/fd_test.cpp", "")
        self.write("lockstep/lockstep.h", "#pragma once\n#include <torch/torch.h>\n")

    def write(self, name, text):
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).write_text(text)

    def check(self):
        result = subprocess.run([sys.executable, CHECK, self.root], capture_output=True, text=True)
        self.assertEqual(result.stderr, "")
        return result.returncode, result.stdout

    def assert_fault(self, expected):
        status, output = self.check()
        self.assertEqual(output, expected + "\n")
        self.assertEqual(status, 1)

    def test_accepts_a_sound_tree(self):
        self.write("lockstep/launch/plan.h", '#pragma once\n#include "lockstep/base/fd.h"\n')
        self.write("lockstep/comm/group.h", "#pragma once\n#include <ATen/core/Tensor.h>\n")
        self.write("lockstep/cli/main.cpp", '#include "lockstep/launch/plan.h"\n')
        self.write("lockstep/comm/nccl_missing.cpp", "")
        self.assertEqual(self.check(), (0, ""))

    def test_rejects_an_include_that_points_up(self):
        self.write("lockstep/base/fd.h", '#pragma once\n#include "lockstep/comm/group.h"\n')
        self.assert_fault(
            "lockstep/base/fd.h:2: includes lockstep/comm/group.h: 'base' may include no other layer"
        )

    def test_rejects_an_include_that_points_sideways(self):
        self.write("lockstep/launch/plan.h", '#pragma once\n# include <lockstep/shm/ring.h>\n')
        self.assert_fault(
            "lockstep/launch/plan.h:2: includes lockstep/shm/ring.h: 'launch' may include base, cluster"
        )

    def test_rejects_an_include_between_rooms_that_is_not_in_the_table(self):
        self.write("lockstep/comm/backends/support/bytes.h", "#pragma once\n")
        self.write("lockstep/comm/backends/shm/work.h",
                   '#pragma once\n#include "lockstep/comm/backends/support/bytes.h"\n')
        self.assertEqual(self.check(), (0, ""))
        self.write("lockstep/comm/backends/mpi/work.h",
                   '#pragma once\n#include "lockstep/comm/backends/shm/work.h"\n')
        self.assert_fault(
            "lockstep/comm/backends/mpi/work.h:2: includes lockstep/comm/backends/shm/work.h: "
            "'comm/backends/mpi' may include backends/support"
        )

    def test_rejects_a_room_that_is_not_in_the_table(self):
        self.write("lockstep/comm/attic/box.h", '#pragma once\n#include "lockstep/comm/rendezvous/meet.h"\n')
        self.assert_fault(
            "lockstep/comm/attic/box.h:2: includes lockstep/comm/rendezvous/meet.h: "
            "there is no room 'comm/attic' in the table of rooms"
        )

    def test_rejects_benchmarks(self):
        self.write("lockstep/base/fd.h", '#pragma once\n#include "benchmarks/driver/bench.h"\n')
        self.assert_fault(
            "lockstep/base/fd.h:2: includes benchmarks/driver/bench.h: nothing of lockstep needs its benchmarks"
        )

    def test_rejects_an_installed_header_that_includes_one_that_is_not_installed(self):
        self.write("cmake/public_headers.txt", "# API\nlockstep/lockstep.h\n# Needed by it\nlockstep/base/fd.h\n")
        self.assertEqual(self.check(), (0, ""))
        self.write("lockstep/base/inside.h", "#pragma once\n")
        self.write("lockstep/base/fd.h", '#pragma once\n#include "lockstep/base/inside.h"\n')
        self.assert_fault(
            "lockstep/base/fd.h:2: includes lockstep/base/inside.h: an installed header needs it, "
            "but cmake/public_headers.txt does not list it"
        )

    def test_rejects_an_installed_header_that_is_gone(self):
        self.write("cmake/public_headers.txt", "# API\nlockstep/lockstep.h\n# Needed\nlockstep/base/gone.h\n")
        self.assert_fault("cmake/public_headers.txt: 'lockstep/base/gone.h' does not exist")

    def test_rejects_api_that_the_umbrella_header_does_not_include(self):
        self.write("cmake/public_headers.txt", "# API: all\nlockstep/lockstep.h\nlockstep/base/fd.h\n")
        self.assert_fault(
            "cmake/public_headers.txt: 'lockstep/base/fd.h' is listed as API, "
            "but lockstep/lockstep.h does not include it"
        )

    def test_rejects_api_that_is_not_listed_as_such(self):
        self.write("lockstep/lockstep.h", '#pragma once\n#include "lockstep/base/fd.h"\n')
        self.write("cmake/public_headers.txt", "# API\nlockstep/lockstep.h\n# Needed\nlockstep/base/fd.h\n")
        self.assert_fault("cmake/public_headers.txt: 'lockstep/base/fd.h' is API, but not listed below '# API'")

    def test_rejects_torch_in_a_torch_free_layer(self):
        for header in ("torch/types.h", "ATen/ATen.h", "c10/util/Exception.h"):
            self.write("lockstep/base/fd.h", f"#pragma once\n#include <{header}>\n")
            self.assert_fault(
                f"lockstep/base/fd.h:2: includes {header}: the layer 'base' is built without torch"
            )

    def test_rejects_torch_in_a_torch_free_folder(self):
        self.write("lockstep/data/samplers/sampler.h", "#pragma once\n#include <ATen/core/Tensor.h>\n")
        self.write("lockstep/data/readers/csv.h", "#pragma once\n#include <string>\n")
        self.assertEqual(self.check(), (0, ""))
        self.write("lockstep/data/readers/csv.h", "#pragma once\n#include <ATen/core/Tensor.h>\n")
        self.assert_fault(
            "lockstep/data/readers/csv.h:2: includes ATen/core/Tensor.h: the folder 'data/readers' is built without torch"
        )

    def test_rejects_what_needs_torch_in_a_torch_free_folder(self):
        self.write("lockstep/data/cache/key.h", '#pragma once\n#include "lockstep/data/readers/csv.h"\n')
        self.assertEqual(self.check(), (0, ""))
        self.write("lockstep/data/cache/key.h", '#pragma once\n#include "lockstep/data/samplers/sampler.h"\n')
        self.assert_fault(
            "lockstep/data/cache/key.h:2: includes lockstep/data/samplers/sampler.h: "
            "the folder 'data/cache' is built without torch, and that header is not"
        )

    def test_rejects_the_whole_of_torch_below_the_umbrella(self):
        self.write("lockstep/comm/group.h", "#pragma once\n#include <torch/torch.h>\n")
        status, output = self.check()
        self.assertIn("only lockstep/lockstep.h includes it", output)
        self.assertEqual(status, 1)

    def test_rejects_the_umbrella_inside_a_layer(self):
        self.write("lockstep/comm/group.h", '#pragma once\n#include "lockstep/lockstep.h"\n')
        self.assertIn("it is for users", self.check()[1])

    def test_rejects_a_relative_path_around_the_layers(self):
        self.write("lockstep/launch/plan.h", '#pragma once\n#include "../base/fd.h"\n')
        self.assertIn("write the path from the root", self.check()[1])

    def test_rejects_a_header_without_guard(self):
        self.write("lockstep/base/text.h", "#include <string>\n")
        self.assert_fault("lockstep/base/text.h: no '#pragma once'")

    def test_rejects_a_source_without_test(self):
        self.write("lockstep/base/text.cpp", "")
        self.assert_fault("lockstep/base/text.cpp: no tests/base/text_test.cpp")

    def test_rejects_a_folder_that_is_no_layer(self):
        self.write("lockstep/utils/misc.h", "#pragma once\n")
        self.assert_fault("lockstep/utils/misc.h: there is no layer 'utils'")


if __name__ == "__main__":
    unittest.main()
