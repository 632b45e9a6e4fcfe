"""The files of the page: complete, small, with security headers and an unchanged vendored module. Node runs the unit tests."""

from __future__ import annotations

import gzip
import hashlib
import re
import shutil
import subprocess
from importlib.resources import files
from pathlib import Path

import pytest

from mergewise.page.shell import asset
from mergewise.server.web import POLICY, page_files

WEB = Path(str(files("mergewise.server.web")))
OWN = sorted(path for path in WEB.iterdir() if path.suffix in (".js", ".css", ".html", ".svg"))
# sha256 of preact/standalone.module.js of htm 3.1.1 on npm
VENDORED = "72284e8e9079c87817145df1110f74e8a2aa040b2fc384922e18dfcb46fc1fd7"


def test_the_vendored_module_is_unchanged_and_licensed() -> None:
    assert hashlib.sha256((WEB / "vendor" / "preact.js").read_bytes()).hexdigest() == VENDORED
    licence = (WEB / "vendor" / "LICENSE").read_text()
    assert "MIT License" in licence and "Apache License" in licence


def test_own_code_stays_small() -> None:
    assert len(gzip.compress(b"".join(path.read_bytes() for path in OWN))) <= 62_600


def test_every_imported_module_and_style_is_served() -> None:
    served = page_files()
    for path in OWN:
        source = path.read_text()
        for name in (
            re.findall(r'from "\./([^"]+)"', source) if path.suffix == ".js" else re.findall(r'"(web/[^"]+)"', source)
        ):
            assert f"/{name}" in served if path.suffix == ".html" else f"/web/{name}" in served, (path.name, name)
    assert served["/web/shared.css"].body.decode() == asset("shared.css")
    assert {"/", "/web/app.js", "/web/vendor/preact.js"} <= served.keys()
    assert not any("LICENSE" in path for path in served)


def test_files_have_security_headers_and_etags() -> None:
    for file in page_files().values():
        headers = file.headers
        assert headers["Content-Security-Policy"] == POLICY
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Cache-Control"] == "no-cache"
    tags = {file.etag for file in page_files().values()}
    assert len(tags) == len({file.body for file in page_files().values()})
    assert "unsafe" not in POLICY and "require-trusted-types-for 'script'" in POLICY and "default-src 'none'" in POLICY


@pytest.mark.parametrize(
    "path", [path for path in OWN if path.suffix == ".js" and path.name != "fragment.js"], ids=lambda path: path.name
)
def test_the_page_makes_no_html_or_code_from_text(path: Path) -> None:
    source = path.read_text()
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacent|document\.write|dangerously|\beval\(|new Function|setTimeout\([\"'`]",
        source,
    )
    assert not re.search(r"https?://", source)


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_pure_modules_with_node(tmp_path: Path) -> None:
    for name in ("blocks.js", "markdown.js", "sse.js", "text.js", "transcript.js"):
        shutil.copy(WEB / name, tmp_path)
    shutil.copy(Path(__file__).with_name("web_units.mjs"), tmp_path)
    (tmp_path / "package.json").write_text('{"type": "module"}')
    ran = subprocess.run(["node", "--test", "web_units.mjs"], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stdout[-4000:] + ran.stderr[-2000:]


@pytest.mark.skipif(shutil.which("tsc") is None, reason="tsc (TypeScript 5 or later) is not installed")
def test_types_in_comments_are_valid(tmp_path: Path) -> None:
    types = Path(__file__).with_name("web_types")
    for path in OWN:
        shutil.copy(path, tmp_path)
    shutil.copy(types / "tsconfig.json", tmp_path)
    (tmp_path / "vendor").mkdir()
    shutil.copy(types / "preact.d.ts", tmp_path / "vendor")
    ran = subprocess.run(["tsc", "-p", str(tmp_path)], capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stdout[-4000:]
