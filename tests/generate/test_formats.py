"""Output formats of a context for other programs: the prompt of `r&b`, messages and XML."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tests.command import run_text

import mergewise as mw

QUESTION = "What do cats eat?"
TEXT = "# Cats & dogs\n\nCats eat <b>fish</b>.\x1b They \u202esleep.\n\n## More\n\nDogs eat meat, cats do not.\n"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("formats")
    mw.open(folder / "mergewise.index", embedder="none").add(mw.Document("cats.md", TEXT))
    return folder


def test_the_prompt_equals_the_one_sent_to_a_model(home: Path) -> None:
    chat = mw.ScriptedChat(["Fish [1]."])
    index = mw.open(home / "mergewise.index", chat=chat)
    answer = index.ask(QUESTION, mode="r&b")
    (asked,) = chat.asked
    messages = index.messages(index.context(QUESTION))
    assert messages == list(asked.messages) and messages == index.messages(answer.context)
    shown = run_text(["context", QUESTION, "--format", "messages"], home)
    assert json.loads(shown.stdout) == [{"role": one.role, "content": one.text} for one in messages]
    prompt = run_text(["context", QUESTION, "--format", "prompt"], home).stdout
    assert prompt.rstrip("\n") == "\n\n".join(one.text for one in messages).rstrip("\n")


def test_xml_has_every_passage_with_its_places(home: Path) -> None:
    context = mw.open(home / "mergewise.index", tokens="o200k").context(QUESTION)
    root = ElementTree.fromstring(run_text(["context", QUESTION, "--format", "xml"], home).stdout)
    assert root.attrib == {"question": QUESTION, "tokens": str(context.tokens)}
    assert len(root) == len(context.passages) > 0
    for element, passage in zip(root, context.passages, strict=True):
        assert [(s.get("document"), s.get("start"), s.get("end")) for s in element.findall("span")] == [
            (span.doc_id, str(span.start), str(span.end)) for span in passage.spans
        ]
        assert len(element.findtext("text") or "") == len(passage.text)


def test_format_json_equals_the_option_json(home: Path) -> None:
    one, other = (run_text(["context", QUESTION, *words], home).stdout for words in (["--format", "json"], ["--json"]))
    assert json.loads(one) == json.loads(other)


@pytest.mark.parametrize(("words", "message"), [(["nope"], "unknown format"), (["xml"], "one question")])
def test_invalid_formats_are_errors(home: Path, words: list[str], message: str) -> None:
    done = run_text(["context", "-", "--format", *words], home)
    assert done.returncode == 2 and message in done.stderr


def test_print_shows_the_text(home: Path) -> None:
    index = mw.open(home / "mergewise.index")
    assert str(index.context(QUESTION)) == index.context(QUESTION).text
    assert str(index.ask(QUESTION)) == index.ask(QUESTION).text
