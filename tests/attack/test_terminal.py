"""Escape sequences in names, titles, metadata, texts, answers and errors, shown on a real terminal."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import mergewise as mw
from mergewise.text.printable import on_one_line, printable
from tests.attack.support import LONG, Done, command, on_terminal, posix_only
from tests.chat_server import ChatServer

CLEAR, TITLE, C1, BELL, BACK = "\x1b[2J", "\x1b]0;owned\x07", "\x9b31m", "\x07", "\x08\x08\x08"
OVERRIDE, MARKS, HIDDEN = "\u202e", "\u200f\u200e\u061c", "\U000e0041\U000e007f\ufff9\u2028\u2029\u3164\u115f"
EVIL = f"{CLEAR}{TITLE}{C1}{BELL}{BACK}{OVERRIDE}{MARKS}{HIDDEN}"
# With text that rich would read as mark-up.
NAME = f"evil{CLEAR}{TITLE}{OVERRIDE}{MARKS}{HIDDEN}[/b][red]\nmergewise: forged.md"
BODY = (
    f"# Owls {EVIL}\n\nOwls sleep {EVIL} in barns [/] [link=file:///x]all day[/link]. Owls eat mice {EVIL} at night.\n"
)

# Sequences that rich may send: colours, cursor movement and hiding for the progress bar, clearing of a line.
DRAWN = re.compile(r"\x1b\[[0-9;]*m|\x1b\[\d*[AK]|\x1b\[\?25[lh]|\r")
CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff"
    "\u061c\u200e\u200f\u2028\u2029\u115f\u3164\ufff9-\ufffb\U000e0000-\U000e007f]"
)

pytestmark = posix_only


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("terminal")
    docs = folder / "docs"
    docs.mkdir()
    (docs / NAME).parent.mkdir()
    (docs / NAME).write_text(BODY)
    (docs / "front.md").write_text(
        '---\ntitle: "Bats \\e[2J"\nauthor: "\\e]0;owned\\a"\n---\n\nBats hang upside down.\n'
    )
    (docs / f"bad{CLEAR}.docx").write_text("no document")
    (docs / f"odd.{CLEAR}").write_text("left out")
    (docs / f"link{EVIL}.md").symlink_to(folder / f"out{CLEAR}.md")
    (folder / f"out{CLEAR}.md").write_text("A link leads here.\n")
    asked = {"id": f"q{EVIL}", "question": f"What do {EVIL} owls eat?", "answers": [f"mice {EVIL}"]}
    (folder / "questions.jsonl").write_text(json.dumps(asked))
    (docs / os.fsdecode(b"bytes\xff.md")).write_text("Bytes that are no text are in this name.\n")
    done = on_terminal(folder, "index", "docs", "--embedder", "none")
    assert_harmless(done)
    assert "link out of the folder, left out: docs/link" in done.out
    assert done.code == 1 and "bytes" in done.out and "bad" in done.out
    return folder


def assert_harmless(done: Done) -> None:
    """Check that only rich's own sequences reached the terminal, and that others were made visible."""
    left = DRAWN.sub("", done.out)
    found = CONTROL.search(left)
    assert found is None, ascii(left[max(0, found.start() - 200) : found.end() + 100])
    assert not re.search(r"^mergewise: forged", left, re.MULTILINE), "a name forged a line"


EVERY = [
    ("ask", "What do owls eat at night?"),
    ("ask", "What do owls eat at night?", "--trace"),
    ("context", "Where do owls sleep?", "--trace"),
    ("context", "Where do owls sleep?", "--merge-with", "mergerag-sym", "--budget", "40", "--trace"),
    ("compare", "Where do owls sleep?", "--strategies", "weave,topk"),
    ("show", "1"),
    ("show", f"{EVIL}"),
    ("info", "--documents"),
    ("remove", f"nothing{EVIL}"),
    ("index", "docs", "--sync", "--dry-run"),
    ("ask", "Where do owls sleep?", "--where", f"title = '{EVIL.replace(chr(0), '')}' and"),
    ("ask", f"Where do {EVIL} owls sleep?", "--strategy", f"no{EVIL}"),
    ("ask", "Where do owls sleep?", "--budget", f"{EVIL}"),
    ("ask", "Where do owls sleep?", "--rounds", f"{EVIL}"),
    (f"{EVIL}",),
    ("ask", "Where do owls sleep?", f"--no{EVIL.replace(chr(0), '')}[/b]"),
    ("-v", "check"),
    ("context", "Where do owls sleep?", "--format", "xml"),
    ("show", f"docs/{NAME}:1"),
    ("eval", "questions.jsonl"),
    ("index", "docs"),
]


WORDS = EVERY if LONG else [EVERY[1], EVERY[5], EVERY[9], EVERY[13], EVERY[15]]


@pytest.mark.parametrize("words", WORDS, ids=range(len(WORDS)))
def test_names_and_texts_do_not_control_the_terminal(home: Path, words: tuple[str, ...]) -> None:
    if words[:1] == ("show",):
        command(home, "ask", "What do owls eat at night?")
    assert_harmless(on_terminal(home, *words))


def test_model_does_not_control_the_terminal(home: Path) -> None:
    """In a stream, an escape sequence may also arrive in two pieces."""
    with ChatServer([f"Owls eat mice {EVIL} [1].\x1b", f"Owls eat mice {EVIL} [1]."]) as server:
        given = {"OPENAI_BASE_URL": server.base_url, "OPENAI_API_KEY": "k"}
        for streams in ("true", "false"):
            done = on_terminal(
                home, "ask", "What do owls eat?", "--chat", "openai:m", MERGEWISE_STREAM=streams, **given
            )
            assert_harmless(done)
            assert "Owls eat mice" in done.out


def test_configuration_does_not_control_the_terminal(home: Path, tmp_path: Path) -> None:
    spelled = "\\u001b[2J\\u009b31m"
    for line in (
        f'budget = "{spelled}"',
        f'"{spelled}" = 1',
        f'[ask]\nmax-tokens = "{spelled}"',
        f'strategy = "{spelled}"',
    ):
        (tmp_path / "mergewise.toml").write_text(line)
        done = on_terminal(tmp_path, "ask", "What?", "--index", str(home / "mergewise.index"))
        assert_harmless(done)
        assert done.code == 2


def strings(value: object) -> Iterator[str]:
    """Yield every string in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from strings(part)


def test_json_and_pages_are_faithful_and_harmless(home: Path) -> None:
    """JSON escapes every character; a page shows its picture."""
    shown = command(home, "ask", "What do owls eat at night?", "--json")
    assert CONTROL.search(shown.out) is None
    assert EVIL in " ".join(strings(json.loads(shown.out)))
    listed = command(home, "info", "--documents", "--json")
    assert CONTROL.search(listed.out) is None
    assert CLEAR in " ".join(strings(json.loads(listed.out)))
    again = command(home, "index", "docs", "--json")
    assert CONTROL.search(again.out) is None
    assert "\udcff" in " ".join(strings(json.loads(again.out)))
    for words in (("ask", "What do owls eat?"), ("compare", "What do owls eat?", "--strategies", "weave,topk")):
        command(home, *words, "--html", "page.html")
        assert CONTROL.search((home / "page.html").read_text()) is None


def test_pipe_gets_the_text_verbatim(home: Path) -> None:
    """A context in a pipe is verbatim. Standard error is for people and always printable."""
    done = command(home, "context", "Where do owls sleep?")
    assert CLEAR in done.out
    assert CONTROL.search(done.err) is None
    forced = command(home, "context", "Where do owls sleep?", FORCE_COLOR="1")
    assert CLEAR not in forced.out


def test_characters_missing_from_an_encoding_do_not_fail(home: Path) -> None:
    done = command(home, "ask", "What do owls eat at night?", PYTHONIOENCODING="ascii")
    assert done.code == 0 and "mice" in done.out


def test_only_control_characters_become_pictures() -> None:
    text = "a\tb\nç 漢字 🦉 שלום e\u0301"
    assert printable(text) == text
    assert printable("a\r\nb\rc\x00\x1b\x7f\x85") == "a\nb\nc\u2400\u241b\u2421\ufffd"
    assert on_one_line("a\nb\r\nc") == "a b c"


def test_metadata_with_escapes_is_found_and_shown_as_given(tmp_path: Path) -> None:
    with mw.open(tmp_path / "index", embedder="none") as index:
        index.add(mw.Document(id=EVIL, text="Owls eat mice.", title=EVIL, metadata={"author": EVIL}))
        assert index.document(EVIL).metadata == {"author": EVIL}
        assert index.ask("What do owls eat?").citations[0].span.doc_id == EVIL
