"""Nothing leaves: commands, servers and programs look up no name, call no address and write no file outside of the index."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.isolated import PORT, ROOT, assert_silent, isolated

TOWN = str(ROOT / "examples/town")
MERGEWISE = [sys.executable, "-m", "mergewise"]
QUESTION = "Where was the designer of the Red Mill born?"
PROGRAM = """
import time
{imports}
from mergewise.models.onnx import minilm
for question in ("Who built the mill?", "When?", "Where?"):
    minilm().embed_queries([question])
    time.sleep({pause})
"""


def test_commands_and_servers_are_silent(tmp_path: Path) -> None:
    """A DOCX file is read in the separate process, like all files with large parsers."""
    from docx import Document

    written = Document()
    written.add_heading("The Red Mill", 1)
    written.add_paragraph("The Red Mill stands on the east bank of the Lisk.")
    written.save(str(tmp_path / "mill.docx"))
    questions = tmp_path / "questions.csv"
    questions.write_text(f"question,answer\n{QUESTION},Harwick\nWhen was the Red Mill finished?,1850\n")
    index = ["--index", str(tmp_path / "town.index")]
    report = isolated(
        [*MERGEWISE, "index", TOWN, str(tmp_path / "mill.docx"), "--workers", "2", *index],
        *([*MERGEWISE, "ask", question, *index] for question in (QUESTION, "When was the Red Mill finished?")),
        [*MERGEWISE, "eval", str(questions), *index, "--strategies", "weave,topk", "--out", str(tmp_path / "run")],
        [*MERGEWISE, "serve", str(tmp_path / "data"), "--docs", TOWN, "--port", PORT, "--no-auth"],
    )
    assert_silent(report)


def test_programs_are_silent() -> None:
    programs = [
        PROGRAM.format(imports=imports, pause=pause)
        for imports, pause in (("import mergewise, onnxruntime", 5), ("import onnxruntime.capi, mergewise", 0))
    ]
    report = isolated([sys.executable, "-c", programs[0]])
    assert_silent(report)
    # the check itself sees what it is there to see
    loud = isolated([sys.executable, "-c", programs[1]])
    assert any("deviceid" in file for file in loud["files"])


def test_an_earlier_import_of_onnxruntime_is_reported() -> None:
    quiet = {name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}
    for code, environment, warns in (
        ("import onnxruntime, mergewise", quiet, True),
        ("import mergewise, onnxruntime, mergewise.models", quiet, False),
        ("import onnxruntime, mergewise", {**quiet, "ORT_DISABLE_TELEMETRY": "1"}, False),
    ):
        # no telemetry of this test itself: onnxruntime is silent where `CI` is set
        done = subprocess.run(
            [sys.executable, "-c", code], env={**environment, "CI": "1"}, capture_output=True, text=True
        )
        assert ("import mergewise first" in done.stderr) == warns, (code, done.stderr)


def test_a_user_may_turn_telemetry_on() -> None:
    code = "import os, mergewise; print(os.environ['ORT_DISABLE_TELEMETRY'])"
    for given, expected in (("0", "0"), (None, "1")):
        environment = {name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}
        environment |= {} if given is None else {"ORT_DISABLE_TELEMETRY": given}
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
        assert done.stdout.strip() == expected
