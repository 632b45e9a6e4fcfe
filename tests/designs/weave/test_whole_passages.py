"""What announces something is shown with what it announces, at every budget."""

from __future__ import annotations

from pathlib import Path

import pytest

import mergewise as mw
from tests.support import read

CODE = "".join(f'db.table("t{n}").create({{"id": int, "name": str, "weight": float}}, pk="id")\n' for n in range(4))
RST = f"""Tables
======

Keys
----

A table can have a compound primary key. For example:

.. code-block:: python

{"".join(f"    {line}" for line in CODE.splitlines(keepends=True))}
The tables of this example print their keys:

.. code-block:: output

    id, name

Help
----

The command prints these options:

::

    Usage: tables [OPTIONS] PATH KEY

      Create tables with a compound key in the database at PATH, one for each KEY

      Example:

          tables --key id --key name --not-null weight dogs.db

    Options:
      --key TEXT  A column of the compound key of the table
"""
MDX = f"""---
title: Tables
---

<YouWillLearn isChapter={{true}}>

* What a compound key of a table is

</YouWillLearn>

## Keys

A table can have a compound primary key. You create one in this way:

<Sandpack>

```js
{CODE}```

</Sandpack>

<Note>

A compound key of a table has several columns.

</Note>

::: tables.Table
    options:
        members: key
"""


@pytest.mark.parametrize(("name", "text"), [("tables.rst", RST), ("tables.md", MDX)])
def test_no_passage_ends_with_an_announcement(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    index = mw.open(tmp_path / "index", embedder="none")
    index.add(read(tmp_path / name))
    shown = ""
    for budget in range(10, 400, 10):
        context = index.context(
            "How do I create a table with a compound key, and which options are there?", budget=budget
        )
        assert context.tokens <= budget
        for passage in context.passages:
            last = passage.text.splitlines()[-1].strip()
            assert last and not last.endswith(":") and not last.startswith(("<", "::", "..", "title")), (budget, last)
            shown += passage.text
    assert all(line in shown for line in ("A table can have a compound primary key.", *CODE.splitlines()))
    answer = index.ask("How do I create a table with a compound primary key?", budget=300)
    assert CODE.splitlines()[0] in answer.text and "“”" not in answer.text and "code-block" not in answer.text
