"""Make two corpora of `exact` from their sources: the criteria of RGAA as Markdown, and devices of pci.ids as a table.

python -m benchmarks.manuals.exact_sources rgaa criteres.json FOLDER
python -m benchmarks.manuals.exact_sources pci pci.ids FOLDER
"""

from __future__ import annotations

import csv
import json
import re
import sys
from pathlib import Path
from typing import Any

VENDORS = ("10ec", "14e4", "1102", "1106", "15b3")
LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")


def write_criteria(source: Path, folder: Path) -> None:
    """Write a Markdown file for each topic: a heading per criterion, a paragraph per test."""
    for topic in json.loads(source.read_text(encoding="utf-8"))["topics"]:
        blocks = [f"# {topic['number']}. {topic['topic']}"]
        for item in topic["criteria"]:
            criterion = item["criterium"]
            number = f"{topic['number']}.{criterion['number']}"
            blocks += [f"## Critère {number}", _plain(criterion["title"])]
            for test, lines in criterion["tests"].items():
                first, *rest = [lines] if isinstance(lines, str) else lines
                blocks.append(f"**Test {number}.{test}** {_plain(first)}")
                blocks += ["\n".join(f"- {_plain(line)}" for line in rest)] if rest else []
        path = folder / f"theme-{topic['number']:02}.md"
        path.write_text("\n\n".join(blocks) + "\n", encoding="utf-8", newline="\n")


def _plain(text: Any) -> str:
    return LINK.sub(r"\1", str(text)).strip()


def write_devices(source: Path, folder: Path) -> None:
    """Write devices.csv: the id, vendor and name of each device of VENDORS, without subsystems."""
    vendor = name = ""
    with (folder / "devices.csv").open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["id", "vendor", "device"])
        for line in source.read_text(encoding="utf-8", errors="replace").splitlines():
            if line[:1].isalnum():
                vendor, _, name = line.partition("  ")
            elif vendor in VENDORS and line.startswith("\t") and not line.startswith("\t\t"):
                device, _, title = line.strip().partition("  ")
                rows.writerow([f"{vendor}:{device}", name, title])


if __name__ == "__main__":
    {"rgaa": write_criteria, "pci": write_devices}[sys.argv[1]](Path(sys.argv[2]), Path(sys.argv[3]))
