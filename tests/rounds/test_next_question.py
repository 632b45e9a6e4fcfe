from __future__ import annotations

import pytest

from mergewise.models.record import Models
from mergewise.models.scripted import ScriptedChat
from mergewise.models.tokens import count_tokens
from mergewise.rounds import by_name, next_question
from mergewise.types import Context, Document, Passage, Span, Usage

EVIDENCE = "Jaws is a film of 1975. Jaws was directed by Steven Spielberg. It was shot on Martha's Vineyard."
QUESTION = "When was the director of Jaws born?"


def context(*texts: str) -> Context:
    passages = tuple(Passage(t, 1 / n, (Span("d", 0, len(t)),)) for n, t in enumerate(texts, 1))
    return Context(QUESTION, "topk", 999, "\n".join(texts), 9, passages)


def lookup(doc_id: str) -> Document | None:
    return Document("d", EVIDENCE)


def test_the_next_search_is_a_name_with_the_open_words() -> None:
    assert by_name(QUESTION, [QUESTION], context(EVIDENCE)) == "Steven Spielberg director born"


def test_a_searched_name_is_not_searched_again() -> None:
    asked = [QUESTION, "Steven Spielberg director born"]
    assert by_name(QUESTION, asked, context(EVIDENCE)) is None or "Martha" in str(
        by_name(QUESTION, asked, context(EVIDENCE))
    )
    assert by_name(QUESTION, [QUESTION], context("Jaws is a film.")) is None
    assert by_name(QUESTION, [QUESTION], context()) is None


def test_a_sentence_without_a_word_of_the_question_leads_nowhere() -> None:
    assert by_name(QUESTION, [QUESTION], context("The boat belonged to Ella Stone.")) is None


@pytest.mark.parametrize(
    ("evidence", "expected"),
    [
        ("The director of Jaws was Spielberg.", "Spielberg born"),
        ("Jaws cost The University of Texas a fortune.", "University of Texas director born"),
        ("However, Jaws was long.", None),  # a sentence's first word is capital anyway
    ],
)
def test_names(evidence: str, expected: str | None) -> None:
    assert by_name(QUESTION, [QUESTION], context(evidence)) == expected


def test_a_name_of_another_sentence_is_not_searched() -> None:
    evidence = "Once Ella Stone sat there. The director of Jaws was Steven Spielberg."
    assert by_name(QUESTION, [QUESTION], context(evidence)) == "Steven Spielberg born"


def ask(said: str, *asked: str, window: int = 8192) -> tuple[str | None, Usage, ScriptedChat]:
    chat = ScriptedChat([said], window=window)
    found, usage = next_question(
        QUESTION, [QUESTION, *asked], context(EVIDENCE), Models(count_tokens, chat=chat), lookup
    )
    return found, usage, chat


def test_the_model_names_the_missing_fact() -> None:
    found, usage, chat = ask("- “When was Steven Spielberg born?”\nBecause ...", "Who made Jaws?")
    assert found == "When was Steven Spielberg born?" and usage.calls == 1
    (asked,) = chat.asked
    assert EVIDENCE in asked.text and QUESTION in asked.text and "- Who made Jaws?" in asked.text


@pytest.mark.parametrize("said", ["NONE", "none.", "**NONE**", "", QUESTION.upper()])
def test_the_model_may_stop_and_no_question_is_asked_twice(said: str) -> None:
    found, usage, _ = ask(said)
    assert found is None and usage.calls == 1


def test_a_question_is_short_and_leaves_most_of_a_small_window() -> None:
    for window, most in ((8192, 512), (400, 100)):
        _, _, chat = ask("NONE", window=window)
        assert chat.asked[0].max_tokens == most


def test_passages_over_the_window_are_left_out() -> None:
    _, _, chat = ask("NONE", window=260)
    assert EVIDENCE not in chat.asked[0].text and QUESTION in chat.asked[0].text


def test_without_a_model_it_costs_nothing() -> None:
    found = next_question(QUESTION, [QUESTION], context(EVIDENCE), Models(count_tokens), lookup)
    assert found == ("Steven Spielberg director born", Usage())
