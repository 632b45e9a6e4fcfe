"""Directives of Sphinx that describe something are headings of their bodies."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.readers.documents import Read, heading_texts, outline

import mergewise as mw
from mergewise.index.tree.build import build_trees
from mergewise.models.tokens import count_tokens
from mergewise.readers.rst import read_rst
from mergewise.text.markup import readable
from mergewise.types import Document

DOMAINS = {
    "py": "function data exception class attribute property method staticmethod classmethod decorator decoratormethod type",
    "c": "member var function macro struct union enum enumerator type",
    "cpp": "class struct function member var concept type alias enum enum-struct enum-class enumerator union",
    "js": "function method class data attribute",
    "rst": "directive directive:option role",
    "std": "option cmdoption envvar confval describe object program",
    "": "option cmdoption envvar confval describe object function method class attribute data exception setting opcode",
}
DIRECTIVES = [f"{domain}:{name}".lstrip(":") for domain, names in DOMAINS.items() for name in names.split()]


@pytest.mark.parametrize("directive", DIRECTIVES)
def test_directives_of_every_domain_are_read(directive: str) -> None:
    text = f"Intro.\n\n.. {directive}:: spam_{directive[0]}\n   :no-index:\n\n   The body of the entry.\n\nAfter."
    shown = " ".join(readable(text).split())
    assert shown == f"Intro. spam_{directive[0]} The body of the entry. After."
    titles = [heading.title for heading in read_rst(text.encode()).outline]
    assert titles == [f"spam_{directive[0]}", ""]


NESTED = """\
Manual
======

.. py:class:: Reader(path, *, mode='r')
              Reader(file)
   :no-index:

   Reads files.

   .. py:method:: read(size=-1)

      Returns the text.

      .. versionadded:: 3.2
         The size.

   It is not safe to share.

.. _targets:

Text of the section.

.. setting:: speed

Speed
-----

.. option:: -v
.. option:: --verbose

   Says more.

.. note:: Take care with this one.

   Not an entry.

.. code-block:: rst

   .. py:data:: EXAMPLE

      Not an entry.

Literal::

   .. confval:: literal

      Not an entry.
"""


def test_entries_nest_by_indentation(read_bytes: Read) -> None:
    document = read_bytes("a.rst", NESTED)
    assert outline(document) == [
        (1, "Manual"),
        (2, "Reader(path, *, mode='r'), Reader(file)"),
        (3, "read(size=-1)"),
        (3, ""),
        (2, ""),
        (2, "Speed"),
        (3, "-v, --verbose"),
        (3, ""),
    ]
    assert [text.strip().split("\n")[0] for text in heading_texts(document)] == [
        "Manual",
        ".. py:class:: Reader(path, *, mode='r')",
        ".. py:method:: read(size=-1)",
        "",
        "",
        ".. setting:: speed",
        ".. option:: -v",
        "",
    ]


def test_each_leaf_of_a_body_has_the_signatures_above_it(read_bytes: Read) -> None:
    (tree,) = build_trees([read_bytes("a.rst", NESTED)], count_tokens)
    paths = {line.strip(): leaf.headings for leaf in tree.leaves for line in leaf.text.split("\n")}
    reader = "Reader(path, *, mode='r'), Reader(file)"
    assert paths["Reads files."] == (reader,)
    assert paths["Returns the text."] == paths["The size."] == (reader, "read(size=-1)")
    assert paths["It is not safe to share."] == (reader,)
    assert paths["Text of the section."] == ()
    assert paths["Says more."] == ("Speed", "-v, --verbose")
    assert paths["Literal::"] == ("Speed",)


@given(st.lists(st.integers(0, 4), min_size=1, max_size=12))
def test_every_body_is_below_its_names(depths: list[int]) -> None:
    stack: list[str] = []
    text, expected = "Top\n===\n\n", {}
    for number, depth in enumerate(depths):
        del stack[depth:]
        margin = "   " * len(stack)
        stack.append(f"name{number}()")
        text += f"{margin}.. py:function:: name{number}()\n\n{margin}   Body {number} of it.\n\n"
        expected[f"Body {number} of it."] = tuple(stack)
    parsed = read_rst(text.encode())
    (tree,) = build_trees([Document("d", parsed.text, parsed.title, outline=parsed.outline)], count_tokens)
    found = {line.strip(): leaf.headings for leaf in tree.leaves for line in leaf.text.split("\n")}
    assert {body: found[body] for body in expected} == expected


def test_contexts_hold_the_entry_that_a_question_names(tmp_path: Path) -> None:
    entries = "".join(
        f".. py:data:: OPTION_{i}\n\n    Sets the speed of part {i}.\n\n    Default: ``{i * 7}``\n\n" for i in range(30)
    )
    (tmp_path / "a.rst").write_text(f"Settings\n========\n\n{entries}", encoding="utf-8")
    with mw.open(tmp_path / "i", embedder="none") as index:
        index.add(tmp_path / "a.rst")
        context = index.context("What is the default of OPTION_17?", budget=128).text
    found = context.partition("› OPTION_17\n")[2].partition("\n\n[")[0]
    assert "Default: ``119``" in found


def test_many_substitutions_and_directives_are_read_in_linear_time() -> None:
    start = time.process_time()
    read_rst(b".. |a| replace:: |a|\n" * 9_000)
    read_rst(b".. x:: y\n\n  a\n\nb\n\n" * 3_000)
    assert time.process_time() - start < 2
