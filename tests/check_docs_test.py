"""Plants faults in a small tree and expects cmake/check_docs.py to name each."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

CHECK = Path(__file__).parents[1] / "cmake" / "check_docs.py"


class CheckDocs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        (self.root / "docs").mkdir()
        self.write("README.md", "# Title\n\nSee [the page](docs/page.md#two-words).\n")
        self.write("docs/page.md", "# Page\n\n## Two `words`\n\nBack to [the top](../README.md).\n")

    def write(self, name, text):
        (self.root / name).write_text(text)

    def check(self):
        result = subprocess.run([sys.executable, CHECK, self.root], capture_output=True, text=True)
        self.assertEqual(result.stderr, "")
        return result.returncode, result.stdout

    def test_accepts_sound_pages(self):
        self.assertEqual(self.check(), (0, ""))

    def test_accepts_wide_tables_and_code(self):
        wide = "x " * 80
        self.write("docs/page.md", f"## Two words\n\n| {wide} |\n\n    {wide}\n\n```\n{wide}\n```\n")
        self.assertEqual(self.check(), (0, ""))

    def test_rejects_a_link_to_nowhere(self):
        self.write("docs/page.md", "## Two words\n[gone](gone.md)\n")
        self.assertEqual(self.check(), (1, "docs/page.md:2: links to gone.md, which does not exist\n"))

    def test_rejects_a_link_to_a_heading_that_is_gone(self):
        self.write("docs/page.md", "# Page\n")
        self.assertEqual(
            self.check(),
            (1, "README.md:3: links to docs/page.md#two-words, and there is no such heading\n"))

    def test_rejects_a_wide_line(self):
        self.write("docs/page.md", "## Two words\n" + "x " * 51 + "\n")
        self.assertEqual(self.check(), (1, "docs/page.md:2: 102 columns, expected at most 100\n"))


if __name__ == "__main__":
    unittest.main()
