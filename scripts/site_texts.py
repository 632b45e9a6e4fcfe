"""Write the pages of the manual as Markdown, and llms.txt, which lists them, into the built site.

python -m scripts.site_texts
"""

from __future__ import annotations

import re
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


def pages(entries: list[Any], depth: int = 0) -> Iterator[tuple[int, str, str]]:
    """Yield the depth, the title and the page of each entry of the navigation. A group has no page."""
    for entry in entries:
        for title, value in ({entry: entry} if isinstance(entry, str) else entry).items():
            yield depth, title, value if isinstance(value, str) else ""
            if not isinstance(value, str):
                yield from pages(value, depth + 1)


def llms_text() -> str:
    """Return llms.txt: the pages with their first sentences, by group."""
    project = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]
    lines = [f"# {project['site_name']}", "", f"> {project['site_description']}"]
    for depth, title, page in pages(project["nav"]):
        if page:
            text = (ROOT / "docs" / page).read_text(encoding="utf-8").partition("\n")[2].strip()
            sentence = re.split(r"(?<=[.:])\s|\n\n|\|", text, maxsplit=1)[0].replace("\n", " ")
            lines.append(f"- [{title}]({page}): {sentence}")
        elif not depth:
            lines += ["", f"## {title}", ""]
    return "\n".join(lines) + "\n"


def main() -> None:
    shutil.copytree(ROOT / "docs", ROOT / "site", dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.svg"))
    (ROOT / "site/llms.txt").write_text(llms_text(), encoding="utf-8")


if __name__ == "__main__":
    main()
