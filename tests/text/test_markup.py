"""Mark-up is blanked, and offsets stay."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mergewise.text.markup import _readable, readable, says_something

SHOWN = [
    ("See [the guide](../a.md#b) now.", "See the guide now."),
    ('[Guide](a.md "A title") and [more][ref]', "Guide and more"),
    ("![diagram](a.png) Text ![b][c]", "Text"),
    ("[![Build](https://b)](https://c)", ""),
    ("A **bold** word", "A bold word"),
    ("See :ref:`the query <cli_query>` or :class:`~a.B`.", "See the query or a.B ."),
    ("Read `the docs <https://x.org>`__ and `Here`_.", "Read the docs and Here ."),
    (".. _anchor:\n\nText", "Text"),
    (".. note::\n   Mind the gap.", "Mind the gap."),
    (".. py:data:: DEBUG\n\n   Default: None", "DEBUG Default: None"),
    (".. rst:directive:option :: x\n   :no-index:\n\n   Text", "x Text"),
    (".. note: a comment\n   that goes on\nText", "Text"),
    (".. index::\n   single: a word\n\nText", "Text"),
    ("See :rst:dir:`!note`, :std:program:option:`-v <x>`.", "See note , -v ."),
    (".. image:: a.png\n   :alt: x", ""),
    (".. a comment\n   that goes on\n\n   and on\nText", "Text"),
    (".. code-block:: python\n\n   x = 1", "x = 1"),
    ('!!! warning "Careful"\n    Text', '"Careful" Text'),
    ("/// tip | A hint\n\nText\n\n///", "A hint Text"),
    ("/// note\nText\n////", "Text"),
    ("::: warning Beware\nText\n:::", "Beware Text"),
    ("::: fastapi.Depends", "fastapi.Depends"),
    ("/// Adds two numbers.", "/// Adds two numbers."),
    ("```python\nx[1](2)\n```", "x 1"),
    ("[ref]: https://x.org", ""),
    ("[ref]: <../a/b.md> 'A title'\n[other]: #part\n[third]: page.html", ""),
    ("[^p]: Permits are issued by Ada.", "[^p]: Permits are issued by Ada."),
    ("[^p]: https://x.org", "[^p]: https://x.org"),
    ("[Speaker 2]: The budget is 9,400.", "[Speaker 2]: The budget is 9,400."),
    ("[ERROR]: /var/log/app.log is full", "[ERROR]: /var/log/app.log is full"),
    ('<a href="x">link</a> <br/> List<int>', "link List<int>"),
    ("<!-- hidden\ntext -->shown", "shown"),
    ("Text {#anchor}", "Text"),
]


@pytest.mark.parametrize(("text", "shown"), SHOWN)
def test_markup_reads_as_its_text(text: str, shown: str) -> None:
    assert " ".join(readable(text).split()) == shown


@pytest.mark.parametrize(
    "text", ["It ended.. so what", "a < b and c > d", "x * y * z", "f(a)[0]", "a_b_c __init__", "5 [see p. 3] and more"]
)
def test_prose_and_code_stay(text: str) -> None:
    assert readable(text) == text


PIECES = st.sampled_from(["\n", "\n   ", " ", ".. ", *"[ ] ( ) ` < > :: :a: ! * ** a <b> {# } _ |".split()])


@given(st.lists(PIECES, max_size=40).map("".join))
def test_offsets_stay(text: str) -> None:
    shown = readable(text)
    assert shown == _readable(text)
    assert len(shown) == len(text)
    assert all(after in (before, " ") for before, after in zip(text, shown, strict=True))
    assert [i for i, c in enumerate(text) if c == "\n"] == [i for i, c in enumerate(shown) if c == "\n"]


def test_texts_with_words_or_numbers() -> None:
    assert says_something("a") and says_something("日本") and says_something("7")
    assert not any(map(says_something, ("", "====", "| | |", "---", "…")))
