"""The picture in the README: run `python -m scripts.picture` after a change of the page. It needs Chromium.

It indexes FOLDER (examples/town), asks QUESTION with `mergewise ask ... --html`, and photographs the page down to the end of its
first passage.
"""

from __future__ import annotations

import argparse
import base64
import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.page.chromium import PATH, browser
from typer.testing import CliRunner

from mergewise.cli.main import app

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "examples/page.png"
FOLDER = ROOT / "examples/town"
QUESTION = "Where was the designer of the Red Mill born?"
BUDGET = 100
WIDTH, HEIGHT, MARGIN = 860, 900, 24
"""Of the window, and below the passage, in CSS pixels."""
SCALE = 1.5


def write_page(folder: Path, question: str, page: Path) -> None:
    """The page of the answer, by the command line."""
    copy = page.with_name(
        folder.name
    )  # beside the index, so that the page names files as a reader's own would be named
    shutil.copytree(folder, copy)
    index = ["--index", str(page.with_name("mergewise.index"))]
    ask = ["ask", question, "--budget", str(BUDGET), "--html", str(page)]
    for words in (["index", str(copy), *index], [*ask, *index]):
        done = CliRunner().invoke(app, words, catch_exceptions=False)
        if done.exit_code:
            sys.exit(done.output)


def photograph(page: Path, picture: Path) -> None:
    """The page from its top to the end of its first passage."""
    with browser() as tab:
        tab.open(page, width=WIDTH, height=HEIGHT)
        height = tab.js("document.querySelector('#p1').getBoundingClientRect().bottom + scrollY") + MARGIN
        clip = {"x": 0, "y": 0, "width": WIDTH, "height": height, "scale": SCALE}
        shot = tab.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        picture.write_bytes(base64.b64decode(shot["data"]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", default=FOLDER)
    parser.add_argument("--question", default=QUESTION)
    parser.add_argument("--out", type=Path, default=PICTURE)
    options = parser.parse_args()
    if PATH is None:
        sys.exit("there is no Chromium here")
    with TemporaryDirectory(prefix="mergewise-picture-") as work:
        page = Path(work) / "page.html"
        write_page(options.folder.resolve(), options.question, page)
        photograph(page, options.out)
    print(f"{options.out}: {options.out.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
