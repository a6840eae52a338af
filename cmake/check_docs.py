#!/usr/bin/env python3
"""Fails when a link between our pages leads nowhere, or a line of prose has more than 100 columns.

    check_docs.py ROOT    prints one line per fault; exit code 1 if there is any

It reads ROOT/README.md and all pages below ROOT/docs. Tables, code and lines that are one long word may
be wider.
"""

import re
import sys
from pathlib import Path
from typing import Iterator

COLUMNS = 100
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def anchors(page: Path) -> set[str]:
    """The names that GitHub gives to the headings of a page."""
    found = set()
    for line in prose(page.read_text(encoding="utf-8")).values():
        if line.startswith("#"):
            heading = line.lstrip("#").strip().lower().replace("`", "")
            found.add(re.sub(r"[^\w\- ]", "", heading).replace(" ", "-"))
    return found


def prose(text: str) -> dict[int, str]:
    """Lines by number, without blocks of code."""
    lines, in_code = {}, False
    for number, line in enumerate(text.splitlines(), start=1):
        if line.lstrip().startswith("```"):
            in_code = not in_code
        elif not in_code and not line.startswith("    "):
            lines[number] = line
    return lines


def check_page(root: Path, page: Path) -> Iterator[str]:
    name = page.relative_to(root).as_posix()
    for number, line in prose(page.read_text(encoding="utf-8")).items():
        if len(line) > COLUMNS and " " in line.strip() and not line.lstrip().startswith("|"):
            yield f"{name}:{number}: {len(line)} columns, expected at most {COLUMNS}"
        for target in LINK.findall(line):
            if re.match(r"[a-z]+:", target):
                continue
            path, _, anchor = target.partition("#")
            other = (page.parent / path).resolve() if path else page
            if not other.exists():
                yield f"{name}:{number}: links to {target}, which does not exist"
            elif anchor and other.suffix == ".md" and anchor not in anchors(other):
                yield f"{name}:{number}: links to {target}, and there is no such heading"


def main() -> int:
    root = Path(sys.argv[1]).resolve()
    pages = [root / "README.md", *sorted((root / "docs").rglob("*.md"))]
    found = [fault for page in pages for fault in check_page(root, page)]
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
