"""Start-up time: commands do not import modules that they do not need."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import mergewise

CLIENTS = {
    "lancedb.db",
    "lancedb.table",
    "lancedb.query",
    "lancedb.remote.db",
    "lance_namespace",
    "urllib3",
    "openai",
    "httpx",
    "httpx2",
}
PARSERS = {"docutils", "docx", "lxml", "markdown_it", "mergewise.readers", "pypdfium2", "trafilatura"}
MODELS = {"sentence_transformers", "torch", "transformers"}
HEAVY = CLIENTS | PARSERS | MODELS | {"matplotlib", "numpy.ma", "pandas", "polars", "scipy"}
SEARCH = {
    "onnxruntime",
    "tokenizers",
    "mergewise.assemble",
    "mergewise.generate",
    "mergewise.asking",
    "mergewise.designs.strategies",
    "mergewise.generate.modes",
}


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("startup") / "index"
    mergewise.open(directory).add(mergewise.Document(id="cats.md", text="# Cats\n\nCats sleep sixteen hours a day.\n"))
    return directory


def modules_after(cwd: Path, *words: str) -> set[str]:
    code = (
        "import json, sys; from mergewise.cli.main import run; code = run();"
        "print(json.dumps(sorted(sys.modules)), file=sys.stderr); sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", code, *words], cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stderr.splitlines()[-1]))


def test_info_imports_no_search(index: Path) -> None:
    loaded = modules_after(index.parent, "info", "--index", str(index))
    assert "lancedb._lancedb" in loaded
    assert not loaded & (HEAVY | SEARCH | {"rich.console"})
    assert not [name for name in loaded if name.startswith("mergewise.designs.") and name.endswith(".strategy")]


@pytest.mark.parametrize("command", ["ask", "context"])
def test_a_question_imports_no_readers(index: Path, command: str) -> None:
    loaded = modules_after(index.parent, command, "How long do cats sleep?", "--index", str(index))
    assert "onnxruntime" in loaded
    assert not loaded & (HEAVY | {"mergewise.index.pipeline", "mergewise.cli.evaluate", "rich.console"})


def test_the_version_needs_no_index(tmp_path: Path) -> None:
    assert not modules_after(tmp_path, "--version") & (
        HEAVY | SEARCH | {"lancedb", "numpy", "pyarrow", "mergewise.designs"}
    )


def test_quick_exit_loses_no_output(index: Path) -> None:
    """The output exceeds the pipe's buffer, and its reader starts late."""
    code = "from mergewise.cli.main import main; main()"
    text = "\n".join(f"How long do cats sleep, asked {i} times?" for i in range(60))
    words = [sys.executable, "-c", code, "context", "-", "--json", "--index", str(index)]
    done = subprocess.run(words, input=text, capture_output=True, text=True, env={**os.environ, "PYTHONUTF8": "1"})
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["line"] for row in rows] == list(range(1, 61))


def test_a_closed_pipe_causes_no_traceback(index: Path) -> None:
    code = "from mergewise.cli.main import main; main()"
    words = [sys.executable, "-c", code, "context", "How long do cats sleep?", "--index", str(index)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        errors = process.stderr.read()
    assert process.returncode != 0 and "Traceback" not in errors


def test_python_runs_the_package_as_the_command() -> None:
    done = subprocess.run([sys.executable, "-m", "mergewise", "--version"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "") and done.stdout.startswith("mergewise ")
