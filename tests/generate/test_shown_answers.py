"""The streamed pieces of an answer equal the answer, also for refusals."""

from __future__ import annotations

from pathlib import Path

import pytest

import mergewise as mw
from mergewise.generate.prompts import NOT_FOUND

TEXT = "The Quonset lamp was invented by Ada Brix in 1871. It burns whale oil."
QUESTION = "Who invented the Quonset lamp?"


@pytest.mark.parametrize(
    ("written", "answer", "found"),
    [
        ("Ada Brix invented it [1].\n\n", "Ada Brix invented it [1].", True),
        ("\n Ada Brix [9] invented it [1]. ", "Ada Brix invented it [1].", True),
        ("nothing relevant was found in the indexed documents", NOT_FOUND, False),
        (f"**{NOT_FOUND}** I am sorry.", NOT_FOUND, False),
        ("Nothing relevant burns but whale oil [1].", "Nothing relevant burns but whale oil [1].", True),
        (f"{NOT_FOUND} But Ada Brix invented the Quonset lamp [1].", None, True),
        # shown text cannot be taken back
        (f"I looked. {NOT_FOUND}", f"I looked. {NOT_FOUND}", False),
    ],
)
def test_streamed_pieces_equal_the_answer(tmp_path: Path, written: str, answer: str | None, found: bool) -> None:
    shown: list[str] = []
    with mw.open(tmp_path / "index", embedder="none", chat=mw.ScriptedChat([written])) as index:
        index.add(mw.Document("lamp", TEXT))
        given = index.ask(QUESTION, show=shown.append)
    assert "".join(shown) == given.text
    assert (given.text, given.found) == (answer or written, found)


def test_a_refusal_is_held_back_until_it_is_judged(tmp_path: Path) -> None:
    """Otherwise a paraphrase of the refusal would be shown before the standard refusal."""
    shown: list[str] = []
    with mw.open(tmp_path / "index", embedder="none", chat=mw.ScriptedChat([NOT_FOUND.upper()])) as index:
        index.add(mw.Document("lamp", TEXT))
        assert index.ask(QUESTION, show=shown.append).text == NOT_FOUND
    assert shown == [NOT_FOUND]
