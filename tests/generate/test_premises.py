"""Names that occur in no document, contradicted premises, and lists after their leads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mergewise
from mergewise import Document
from mergewise.engine import Index
from mergewise.text.question import asked_names
from mergewise.text.support.premises import contradicts

MANUAL = """# Server

The server listens on port 8000 by default. The keep-alive handler was added in version 3.11.2 of the server.
Call `session.refresh_token()` with --dry-run, or speak HTTP/2. GridManager holds the cells.
The server can be configured by environment variables.

## Modes

Possible values of the compression mode are

- zstd, the default
- gzip for old readers
- none

Unrelated sentence.
"""
PEP = "PEP: 8\nTitle: Style Guide\nStatus: Active\n\nIntroduction\n\nConventions for code that people write.\n"
OTHERWISE = "The documents say otherwise:"


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    with mergewise.open(Path(tmp_path_factory.mktemp("premises")) / "index", embedder="none") as opened:
        opened.add([Document("manual.md", MANUAL, metadata={"part": 1})])
        opened.add([Document("pep-0008.md", PEP, title="PEP 8 - Style Guide", metadata={"part": 2})])
        yield opened


@pytest.mark.parametrize(
    ("question", "name"),
    [
        ("What does `frobnicate_session` do?", "frobnicate_session"),
        ("What does session.refresh_everything() do on the server?", "refresh_everything"),
        ("Which server cells does the GridWarden hold?", "GridWarden"),
        ("What does --dry-walk do on the server?", "--dry-walk"),
        ("What changed in version 9.12 of the server?", "9.12"),
        ("Can the server use Kerberos?", "Kerberos"),
        ("Was macht die SessionWache auf dem server?", "SessionWache"),
    ],
)
def test_a_name_in_no_document_is_named(index: Index, question: str, name: str) -> None:
    answer = index.ask(question, mode="extractive")
    assert answer.text.startswith(f"'{name}' does not occur in these documents.")
    assert not answer.found and not answer.sure


@pytest.mark.parametrize(
    "question",
    [
        "What does `refresh-token` do?", "What does session.refreshToken() do?", "What are refresh_tokens?",
        "Does it speak HTTP2?", "What does `--dry-run` do?", "What does grid_manager hold?", "What is new in 3.11?",
        "What does GRIDMANAGER hold in the Server?", "What is manual.md about?",
    ],
)  # fmt: skip
def test_other_spellings_of_a_name_occur(index: Index, question: str) -> None:
    assert "not occur" not in index.ask(question, mode="extractive").text


def test_a_name_outside_the_filter_is_absent(index: Index) -> None:
    answer = index.ask(
        "What does GridManager hold?", mode="extractive", where={"type": "eq", "key": "part", "value": 2}
    )
    assert answer.text.startswith("'GridManager' does not occur")


@pytest.mark.parametrize(
    ("question", "quoted"),
    [
        ("Why does the server listen on port 9000 by default?", "port 8000"),
        ("Why was the keep-alive handler added in version 3.9 of the server?", "version 3.11.2"),
        ("Why can the server not be configured by environment variables?", "can be configured"),
        ("Why was PEP 8 rejected?", "Status: Active"),
    ],
)
def test_a_contradicted_premise_is_reported_with_the_sentence(index: Index, question: str, quoted: str) -> None:
    answer = index.ask(question, mode="extractive")
    assert answer.text.startswith(OTHERWISE) and quoted in answer.text and not answer.sure


@pytest.mark.parametrize(
    "question",
    [
        "Why does the server listen on port 8000?", "How do I make the server listen on port 9000?",
        "Which port does the server listen on?", "Why was PEP 8 accepted?", "Was the handler added in version 3.11?",
    ],
)  # fmt: skip
def test_true_premises_and_wishes_are_not_contradicted(index: Index, question: str) -> None:
    assert not index.ask(question, mode="extractive").text.startswith(OTHERWISE)


def test_a_denial_within_the_reason_contradicts_nothing() -> None:
    french, reason = "Pourquoi le cache est-il désactivé ?", "Le cache est désactivé parce que personne ne l'utilise."
    assert not contradicts(reason, "", french, reason)
    german, denial = "Warum ist der Cache abgeschaltet?", "Der Cache ist nicht abgeschaltet, weil ihn alle benutzen."
    assert contradicts(denial, "", german, denial)


@pytest.mark.parametrize("budget", [60, 640])
def test_a_lead_is_quoted_with_its_items(index: Index, budget: int) -> None:
    answer = index.ask("What are the possible values of the compression mode?", mode="extractive", budget=budget)
    assert all(item in answer.text for item in ("zstd", "gzip", "none"))


@given(st.lists(st.from_regex(r"[a-z]{3,8}", fullmatch=True), min_size=2, max_size=4))
def test_an_identifier_is_found_in_every_spelling(words: list[str]) -> None:
    (name,) = asked_names(f"what does `{'_'.join(words)}` do")
    camel = words[0] + "".join(word.capitalize() for word in words[1:])
    assert all(name.is_in(f"the {form} here") for form in ("_".join(words), "-".join(words).upper(), camel))
    assert not name.is_in(f"the x{'_'.join(words)} here")
