"""Plain text, encodings, Markdown and reStructuredText: the source is the text."""

from __future__ import annotations

import pytest
from tests.readers.documents import Read, heading_texts, outline, units

from mergewise.text.sections import headings_at

# --- encodings


def test_a_single_byte_encoding_is_guessed(read_bytes: Read) -> None:
    text = "Les élèves français étudient à l'école près de la forêt, où l'été dure très longtemps. " * 5
    assert read_bytes("a.txt", text.encode("cp1252")).text == text


def test_line_ends_are_normalised(read_bytes: Read) -> None:
    assert read_bytes("a.txt", "a\r\nb\rc\n").text == "a\nb\nc\n"
    assert read_bytes("a.md", "# A\r\n\r\ntext\r\n").text == "# A\n\ntext\n"


def test_plain_text_has_no_outline(read_bytes: Read) -> None:
    assert read_bytes("a.log", "# not a heading\n").outline == ()


# --- Markdown


def test_markdown_headings(read_bytes: Read) -> None:
    source = """Intro

# One *two* `three`

Setext
======

Two lines
of title
---

   ### Indented [link](http://x) ![image](y.png) ###

```
# not a heading
```

    # code

> # quoted

- # in a list

###### Six
"""
    document = read_bytes("a.md", source)
    assert document.text == source
    assert outline(document) == [
        (1, "One two three"),
        (1, "Setext"),
        (2, "Two lines of title"),
        (3, "Indented link image"),
        (6, "Six"),
    ]
    assert heading_texts(document) == [
        "# One *two* `three`",
        "Setext\n======",
        "Two lines\nof title\n---",
        "### Indented [link](http://x) ![image](y.png) ###",
        "###### Six",
    ]
    assert document.title == "One two three"


def test_markdown_titles_lose_only_markup(read_bytes: Read) -> None:
    source = "# a\\_b &amp; <b>c</b> [d][r] {#anchor .class}\n\n# {braces}\n\n#\n\n[r]: http://x\n"
    assert outline(read_bytes("a.md", source)) == [(1, "a_b & c d"), (1, "{braces}")]


def test_front_matter(read_bytes: Read) -> None:
    source = """---
title: "The: title"
draft: true
weight: 3
share: 0.5
version: 1.2.3
tags: [a, b]
nested:
  key: value
---
# Heading
"""
    document = read_bytes("a.md", source)
    assert document.title == "The: title"
    assert document.metadata == {"draft": True, "weight": 3, "share": 0.5, "version": "1.2.3", "keywords": "a, b"}
    assert outline(document) == [(1, "Heading")]
    assert heading_texts(document) == ["# Heading"]


def test_a_rule_is_not_front_matter(read_bytes: Read) -> None:
    document = read_bytes("a.md", "text\n\n---\ntitle: no\n---\n")
    assert document.metadata == {}


# --- reStructuredText


RST = """\
=====
Guide
=====

Intro with :ref:`unknown role <x>` and |nothing|.

.. toctree::
   :maxdepth: 2

   a

First :class:`Thing`
--------------------

.. code-block:: python

   Not a title
   -----------

.. include:: /etc/passwd

.. raw:: html

   <b>raw</b>

Deeper
~~~~~~

Second
------
A
~
B
~
"""


def test_rst(read_bytes: Read, capfd: pytest.CaptureFixture[str]) -> None:
    document = read_bytes("a.rst", RST)
    assert document.text == RST
    assert outline(document) == [(1, "Guide"), (2, "First Thing"), (3, "Deeper"), (2, "Second"), (3, "A"), (3, "B")]
    assert heading_texts(document) == [
        "=====\nGuide\n=====",
        "First :class:`Thing`\n--------------------",
        "Deeper\n~~~~~~",
        "Second\n------",
        "A\n~",
        "B\n~",
    ]
    assert document.title == "Guide"
    assert capfd.readouterr() == ("", "")


def test_rst_outlines_do_not_depend_on_files_read_before(read_bytes: Read) -> None:
    read_bytes("a.rst", ".. default-role:: literal\n\n.. role:: own\n\nTitle\n=====\n")
    assert outline(read_bytes("b.rst", "`Title`\n=======\n")) == [(1, "Title")]


def test_broken_rst_is_read(read_bytes: Read) -> None:
    source = "Title\n===\n\n.. csv-table::\n   :file: /etc/passwd\n\n*open ``\n\nUnder\n====\n\nText\n"
    assert read_bytes("a.rst", source).text == source


def test_rst_titles_stand_where_docutils_finds_them(read_bytes: Read) -> None:
    source = "A\u2028B\n====\n\n* x\n\n    Same\n    ----\n\nSame\n----\n\nText\n"
    document = read_bytes("a.rst", source)
    assert outline(document) == [(1, "A B"), (2, "Same")]
    assert [heading.start for heading in document.outline or ()] == [0, source.rindex("Same")]


# --- definition lists of Markdown


DEFINITIONS = """# Manual

## Options

timeout
:   Seconds to wait. Default 5.

retries
:   How often to try again.

    Zero means never.

host `name`

~   Where to connect.

    - by name

After the list.

> quoted
> :   no entry
"""


def test_terms_head_their_definitions(read_bytes: Read) -> None:
    document = read_bytes("a.md", DEFINITIONS)
    assert document.text == DEFINITIONS
    assert outline(document) == [(1, "Manual"), (2, "Options"), (3, "retries"), (3, "host name"), (2, "Options")]
    assert units(document) == ["timeout\n:   Seconds to wait. Default 5."]
    for text, path in (("Zero", "retries"), ("by name", "host name"), ("After", "Options"), ("timeout", "Options")):
        assert headings_at(document.outline or (), DEFINITIONS.index(text))[-1] == path


def test_lines_that_begin_with_colons_are_no_definitions(read_bytes: Read) -> None:
    document = read_bytes("a.md", "# A\n\none\ntwo\n\n: x\n: y\n\n    :   code\n")
    assert (outline(document), document.units) == ([(1, "A")], ())


def test_many_definitions_cost_linear_time(read_bytes: Read) -> None:
    assert len(read_bytes("a.md", "a\n: b\n\n" * 20_000).units) == 20_000
