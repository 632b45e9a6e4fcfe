"""Units tile their text, and know the unit that they need before them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import examples

from mergewise.text.units import ITEM, SHORT, announces, split_units


def units_of(text: str) -> list[tuple[str, int | None]]:
    return [(text[unit.start : unit.end], unit.lead) for unit in split_units(text)]


LONG = (
    "It is a long line with many words that goes on for quite a while, and says nothing that anybody wants to know. "
    * 3
)


def test_a_qualifier_stays_with_its_sentence() -> None:
    assert units_of("Sets the backend. Defaults to `faiss`. It is fast.") == [
        ("Sets the backend. Defaults to `faiss`.", None),
        ("It is fast.", None),
    ]
    assert units_of("It counts. (Default 5)") == [("It counts. (Default 5)", None)]
    assert units_of("The pause between calls.\n\nDefault: timedelta(days=31)")[1] == ("Default: timedelta(days=31)", 0)


def test_a_short_list_is_one_unit_with_its_announcement() -> None:
    text = "Permitted characters:\n\n- letters\n- digits"
    assert units_of(text) == [(text, None)]


def test_the_items_of_a_long_list_need_its_announcement() -> None:
    text = "Intro.\n\nThe options are:\n\n- one\n- two. " + LONG + "\n- three\n\nAfter."
    parts = units_of(text)
    assert [lead for _, lead in parts][:3] == [None, None, 1]
    announced = [lead for part, lead in parts if part.startswith("- ")]
    assert announced == [1, 1, 1] and parts[-1] == ("After.", None)


def test_a_paragraph_ends_the_list_before_it() -> None:
    parts = units_of("The options are:\n\n- one. " + LONG + "\n\nThe weather was fine.\n\n- two. " + LONG)
    assert [lead for part, lead in parts if part.startswith(("- one", "The weather", "- two"))] == [0, None, None]


def test_an_item_keeps_all_its_lines() -> None:
    text = "- `size`: the size\n  of the thing.\n\n  In bytes.\n- `colour`"
    assert units_of(text) == [("- `size`: the size\n  of the thing.\n\n  In bytes.", None), ("- `colour`", None)]


def test_a_long_item_goes_on_under_its_beginning() -> None:
    parts = units_of("- `size` is the size. " + LONG * 2)
    assert len("- " + LONG * 2) > ITEM
    assert [lead for _, lead in parts] == [None] + [0] * (len(parts) - 1)


def test_inner_items_need_the_outer_one() -> None:
    parts = units_of("- outer " + LONG + "\n  - inner\n- next")
    assert parts[-2] == ("- inner", 0) and parts[-1] == ("- next", None)


def test_rows_need_their_header() -> None:
    header = "| name | default |\n|------|---------|"
    rows = [f"| row{i} | a value that takes some room in the table, number {i} |" for i in range(8)]
    assert units_of("\n".join([header, *rows])) == [(header, None), *((row, 0) for row in rows)]
    assert units_of(f"{header}\n| a | 1 |") == [(f"{header}\n| a | 1 |", None)]


def test_rows_of_a_grid_have_several_lines() -> None:
    row = "| " + "a" * 150 + " | b |\n|  c | d |"
    edge = "+---+---+"
    text = f"{edge}\n| h | i |\n+===+===+\n{row}\n{edge}\n{row}\n{edge}"
    parts = [(part.splitlines()[0][:4], lead) for part, lead in units_of(text)]
    assert parts == [("+---", None), ("| aa", 0), ("| aa", 0)]


def test_code_needs_the_sentence_above_it() -> None:
    code = "```python\n" + "x = 1\n" * 100 + "```"
    parts = units_of(f"Other. Call it so.\n\n{code}\n\nThen stop.")
    assert parts[0] == ("Other.", None) and parts[1] == ("Call it so.", None)
    assert {lead for _, lead in parts[2:4]} == {1} and parts[-1] == ("Then stop.", None)


def test_a_literal_block_of_rst_is_code() -> None:
    text = "Run this::\n\n    one two. Three.\n\n    four\n\nDone."
    assert units_of(text) == [("Run this::\n\n    one two. Three.\n\n    four", None), ("Done.", None)]
    directive = "Like so:\n\n.. code-block:: python\n\n    print(1)\n\nDone."
    assert units_of(directive) == [
        ("Like so:", None),
        (".. code-block:: python", None),
        ("print(1)", 0),
        ("Done.", None),
    ]


def test_long_code_is_cut_between_the_least_indented_lines() -> None:
    text = "Usage::\n\n" + "".join(
        f"    --option-{i}   {'what it does ' * 6}\n            and more of it\n" for i in range(12)
    )
    parts = units_of(text)
    assert len(parts) > 3 and all(part.startswith("--option") for part, _ in parts[1:])
    assert {lead for _, lead in parts[1:]} == {0}
    assert sum(part.count("--option") for part, _ in parts) == 12, "a piece ends where the next one begins"


def test_an_answer_stays_with_its_question() -> None:
    text = "__Question__\n\nWhich model?\n\n__Answer__\n\nThe small one."
    assert units_of(text) == [(text, None)]
    assert units_of("Can I?\n\n" + LONG.replace(". ", ", ") + ".")[1][1] == 0


def test_a_definition_stays_with_its_term() -> None:
    text = "--nl\n    Expects one object a line. " + LONG * 2 + "\n\nOther."
    parts = units_of(text)
    assert parts[0][0].startswith("--nl\n") and {lead for _, lead in parts[1:-1]} == {0} and parts[-1][1] is None


def test_prose_has_no_leads() -> None:
    sentences = ["One is here.", "Two is there.", "A third one."]
    assert units_of(" ".join(sentences)) == [(sentence, None) for sentence in sentences]


def test_units_that_announce() -> None:
    assert all(map(announces, ("They are:", "Like this…", "**Note:**", "| a | b |", "__Answer__", "Why?")))
    assert not any(map(announces, ("They are.", "- an item", "**Bold** text here.")))


BITS = (
    "- a item.|1. x|  - nested:|| a | b |||---|---||```|```py|code x|    indented|Text here. More: |permitted:|Is it?|"
    "Defaults to 5.|(Default 3)|.. note::|.. code-block:: python|::|term\n    def. two.|+---+---+|====|# h|* * *|   |.. _x:|"
    "key = v\nother = w|10:01 INFO a\n10:02 INFO b\n  more|a:\n  b: 1|$ ls|x  y   z|# note|"
    ":field: v|a\n: b|__Answer__|日本語。テスト：|..."
).split("|")
LINES = st.tuples(
    st.sampled_from(["| a | b |", "|---|---|", *BITS]), st.sampled_from(["\n", "\n\n", " ", "\n   "])
).map("".join)


@settings(max_examples=examples(300))
@given(st.one_of(st.lists(LINES, max_size=14).map("".join), st.text(max_size=80)))
def test_units_tile_their_text_and_need_earlier_units(text: str) -> None:
    position = 0
    for number, unit in enumerate(split_units(text)):
        assert unit.start >= position and not text[position : unit.start].strip()
        assert unit.start < unit.end and text[unit.start : unit.end].strip() == text[unit.start : unit.end]
        assert unit.lead is None or 0 <= unit.lead < number
        position = unit.end
    assert not text[position:].strip()
    assert SHORT < ITEM


def test_the_paragraphs_of_a_definition_need_its_term() -> None:
    text = (
        "one\n    Means this.\n\n    It is more. And more.\n\n    * an item\n\ntwo : class\n    Means that.\n\nAfter."
    )
    assert units_of(text) == [
        ("one\n    Means this.", None),
        ("It is more.", 0),
        ("And more.", 0),
        ("* an item", 0),
        ("two : class\n    Means that.", None),
        ("After.", None),
    ]


def test_inner_definitions_need_the_outer_term() -> None:
    text = "outer\n    Text.\n\n    a\n        First.\n\n    b\n        Second."
    assert [lead for _, lead in units_of(text)] == [None, 0, 0]


def test_a_list_after_a_sentence_without_an_end_needs_it() -> None:
    text = "Intro.\n\nThe colours are\n\n* one\n* two"
    assert units_of(text) == [("Intro.", None), (text[8:], None)]
    long = units_of(f"{text} {LONG}")
    assert [lead for part, lead in long if part.startswith("* ")] == [1, 1]


def test_a_short_field_list_is_one_unit_and_a_long_one_is_cut_between_fields() -> None:
    assert units_of(":type: int\n:default: 5\n\nText.") == [(":type: int\n:default: 5", None), ("Text.", None)]
    long = units_of("\n".join(f":param {name}: {LONG.strip()}" for name in "abc"))
    assert [part[:9] for part, _ in long if part.startswith(":")] == [":param a:", ":param b:", ":param c:"]


def test_a_directive_announces_only_deeper_text() -> None:
    assert units_of(".. versionadded:: 3.2\n\nNext.") == [(".. versionadded:: 3.2", None), ("Next.", None)]
    assert units_of(".. note:: Careful\n\n   Hot.") == [(".. note:: Careful\n\n   Hot.", None)]


def test_the_body_of_a_note_is_prose() -> None:
    assert units_of(".. note::\n\n   It is hot. It burns.")[1:] == [("It is hot.", None), ("It burns.", None)]


def test_units_know_their_kind() -> None:
    text = (
        "Prose is here. More of it.\n\n- an item\n\nterm\n    Its text.\n\n"
        "| a | b |\n|---|---|\n| 1 | 2 |\n\nA word.\n\n```\nx = 1\n```\n\nThe end."
    )
    assert [unit.kind for unit in split_units(text)] == [
        *("prose", "prose", "item", "entry", "row", "prose", "code", "prose")
    ]


def kinds_of(text: str) -> list[tuple[str, str]]:
    return [(text[unit.start : unit.end], unit.kind) for unit in split_units(text)]


@pytest.mark.parametrize(
    "line",
    [
        "setting_{0} = value{0}",
        "max-size-{0}: {0} MB. At most",
        "2024-05-03 10:0{0}:00,123 INFO  worker-{0} job 100{0} finished. It took 3 ms",
        "May  3 10:0{0}:00 host sshd[99{0}]: Accepted publickey for ada",
        "[03/May/2024:10:0{0}:00] GET /index-{0}.html 200",
        "192.168.0.{0} - - GET /a/b",
        "ERROR {0} valve stuck",
        "[Speaker {0}]: The budget is {0},400 euro. It is fixed.",
        "Ada: That is number {0}. And then",
        "$ mergewise index folder-{0}",
        "user@host:~/docs$ ls -l {0}",
        "worker-{0} is ready. It waits",
        "export NAME_{0}=value",
        "serv{0}\t\t{0}/tcp\tname",
        "root   {0}   0.{0}   /sbin/init",
    ],
)
def test_each_line_of_a_log_or_of_settings_is_a_unit(line: str) -> None:
    lines = [line.format(n) for n in range(1, 8)]
    assert kinds_of("\n".join(lines)) == [(one, "line") for one in lines]
    text = "```\n" + "\n".join(10 * lines) + "\n```"
    found = kinds_of(text)
    assert {kind for _, kind in found} == {"line"} and len(found) == 70, "in long code, too"
    assert found[0][0] == f"```\n{lines[0]}" and found[-1][0] == f"{lines[-1]}\n```"


def test_a_record_keeps_its_further_lines() -> None:
    log = "10:01 INFO started\n10:02 ERROR failed\nTraceback (most recent call last):\n  File a.py\nValueError: no\n10:03 INFO on"
    assert units_of(log) == [("10:01 INFO started", None), (log[19:-14], None), ("10:03 INFO on", None)]
    long = "\n".join(
        ["10:02 ERROR failed", "Traceback:", *(f"  File part_{n}.py, in a function" for n in range(20)), "10:03 on"]
    )
    parts = units_of(long)
    assert (
        parts[0] == ("10:02 ERROR failed", None) and parts[1] == ("Traceback:", 0) and parts[-1] == ("10:03 on", None)
    )
    assert {lead for _, lead in parts[2:-1]} == {1}


def test_nested_settings_need_the_lines_above_them() -> None:
    text = (
        "server:\n"
        + "\n".join(f"  option_{n}: a value that takes some room\n    more_{n}: 5" for n in range(9))
        + "\nclient: 1"
    )
    parts = units_of(text)
    assert parts[0] == ("server:", None) and parts[-1] == ("client: 1", None)
    assert {lead for _, lead in parts[1:-1]} == {0} and len(parts) == 11
    assert units_of("server:\n  port: 80\n  host: x") == [("server:\n  port: 80\n  host: x", None)]


def test_a_setting_needs_the_comment_above_it() -> None:
    text = "# The port that the server\n# listens on.\nport = 80\nhost = x\n\n# Other.\nsize = 5"
    assert units_of(text) == [(text.partition("\n\n")[0], None), ("# Other.\nsize = 5", None)]


def test_prose_is_not_cut_at_the_ends_of_its_lines() -> None:
    for text in (
        "This is a paragraph that\nsomebody wrapped at a very narrow\nwidth by hand, so that its\nlines differ.",
        "One sentence a line.\nIt is a habit of some writers.\nNo line goes on.",
        "See [the guide](https://example.org/a/very/long/address/of/a/page.html)\nfor the details of it,\nand the rest.",
        "The options of this thing are: a\nlong one and a short one, and\nnothing: else.",
    ):
        assert {unit.kind for unit in split_units(text)} == {"prose"}, text


def test_a_long_line_goes_on_under_its_beginning() -> None:
    text = "Ada: " + "It is one sentence of a long turn. " * 25 + "\nBob: Yes.\nAda: No."
    parts = units_of(text)
    assert len(text) > 2 * ITEM and {lead for _, lead in parts[1:-2]} == {0} and parts[-1] == ("Ada: No.", None)


# The header of a drawn table, a row, and the last line.
TABLES = {
    "simple reST": ("=====  ======\n A      B\n=====  ======", "False  It is {0}. Or", "=====  ======"),
    "further lines": (
        "====  ======\nName  What\n      it is\n====  ======",
        "x{0}    The size\n\n      of it.",
        "====  ======",
    ),
    "grid": ("+----+----+\n| A  | B  |\n+====+====+", "| a{0} | b. |\n|    | C  |\n+----+----+", ""),
    "grid without header": ("+----+----+\n| A  | B  |\n+----+----+", "| a{0} | b. |\n|    | C  |\n+----+----+", ""),
    "joined cells": (
        "+----+----+\n| A  | B  |\n+====+====+",
        "| a{0} | b. |\n|    +----+\n|    | C  |\n+----+----+",
        "",
    ),
    "Markdown": ("| Name | Value |\n|:-----|------:|", "| a{0} | It is 1. Or 2 |", ""),
    "without bars": ("Name | Value\n--- | ---", "a{0} | It is 1. Or 2", ""),
    "psql": (" id | name\n----+-----", "  {0} | Ada. A", ""),
    "mysql": ("+----+----+\n| id | a  |\n+----+----+", "|  {0} | x  |", "+----+----+"),
    "box": ("┌────┬────┐\n│ id │ a  │\n├────┼────┤", "│  {0} │ x  │", "└────┴────┘"),
    "dashes": ("Name     Seats\n-------  -----", "Blue{0}    12", ""),
    "columns": ("USER   PID COMMAND", "root     {0} /sbin/init", ""),
}


@pytest.mark.parametrize("name", TABLES)
def test_a_row_of_a_drawn_table_is_a_unit_that_needs_the_header(name: str) -> None:
    header, row, last = TABLES[name]
    rows = [row.format(n) for n in range(30, 60)]
    body = "\n".join([header, *rows, last]).rstrip()
    parts = units_of(f"It is so.\n\n{body}\n\nThe end.")
    assert parts[0] == ("It is so.", None) and parts[-1] == ("The end.", None)
    shown = [(part.strip(), lead) for part, lead in parts[1:-1]]
    assert shown[0] == (header.strip(), None)
    assert [part.removesuffix("\n+----+----+") for part, _ in shown[1:-1]] == [
        one.strip().removesuffix("\n+----+----+") for one in rows[:-1]
    ]
    assert shown[-1][0].startswith(rows[-1].strip()) and {lead for _, lead in shown[1:]} == {1}
    assert {unit.kind for unit in split_units(body)} == {"row"}
    indented = "\n".join(f"   {line}".rstrip() for line in body.split("\n"))
    assert len(units_of(indented)) == len(shown), "also in a directive"


def test_lines_above_a_drawn_table_are_prose() -> None:
    parts = units_of(
        "These are all\nof the rooms:\nRoom | Seats\n--- | ---\n"
        + "\n".join(f"Blue{n} | {n} of them" for n in range(30))
    )
    assert parts[:3] == [
        ("These are all\nof the rooms:", None),
        ("Room | Seats\n--- | ---", 0),
        ("Blue0 | 0 of them", 1),
    ]


def test_an_item_ends_above_a_line_with_a_smaller_margin() -> None:
    text = "web:\n  ports:\n    - 8080\n    - 9090\n      more of it\n  image: a\n  size: 5\nlast: 1"
    assert kinds_of(f"{text}\n{LONG}")[-4:-1] == [("image: a", "line"), ("size: 5", "line"), ("last: 1", "line")]
    assert units_of("- one\nlazy\n- two")[0] == ("- one\nlazy", None)


def test_an_answer_in_a_line_needs_its_question() -> None:
    questions = [f"Q: Why is it number {n}?\nA: {LONG}" for n in range(3)]
    assert [lead for _, lead in units_of("\n".join(questions))] == [None, 0, None, 2, None, 4]


@pytest.mark.parametrize(
    "lines",
    [
        ["Port 22", "PermitRootLogin no", "PasswordAuthentication yes", "X11Forwarding no"],
        ["GET /a", "GET /b", "POST /c", "GET /d"],
        ["apples", "pears", "plums and cherries", "figs"],
    ],
)
def test_short_lines_without_full_stops_are_units(lines: list[str]) -> None:
    assert kinds_of("\n".join(lines)) == [(line, "line") for line in lines]


def test_lines_of_comma_separated_values_are_rows() -> None:
    rows = [f"Ada {n},{n},Delft. It is" for n in range(30)]
    assert units_of("\n".join(["name,age,town", *rows])) == [("name,age,town", None), *((row, 0) for row in rows)]


def test_the_definitions_of_terms_without_empty_lines_are_prose() -> None:
    wrapped = [
        "It is the first of the many words of a sentence that goes",
        "on and on over the end of its line, until it ends. This one",
        "says that the definition of a term may take more than one",
        "line, and that no line is a unit of its own. So it has more",
        "than four hundred characters, which is the longest unit that",
        "is not cut into its sentences. The last line is a short one,",
        "and it ends the definition of this term. No line is cut.",
    ]
    text = "\n".join(f"term_{n}\n    " + "\n    ".join(wrapped) for n in range(4))
    parts = units_of(text)
    assert [lead for part, lead in parts if part.startswith("term")] == [None] * 4
    assert all(part.endswith(".") for part, _ in parts if not part.startswith("term")) and len(parts) > 4


def test_a_row_of_a_table_written_as_lists_is_a_unit_that_needs_the_header() -> None:
    rows = [
        f"* - Fruit {n}\n  - {n} kilos\n    of it, from the garden behind the old house by the river" for n in range(8)
    ]
    table = "\n".join(["* - Name", "  - Weight and origin", *rows])
    found = split_units(table)
    assert [(table[unit.start : unit.end], unit.lead, unit.kind) for unit in found[1:]] == [(r, 0, "row") for r in rows]
    assert table[: found[0].end] == "* - Name\n  - Weight and origin"


def test_a_directive_ends_the_list_above_it() -> None:
    text = "--port  Port to listen on.\n\n.. image:: a.png\n\n   - Width: 3 " + 400 * "x"
    assert [unit.lead for unit in split_units(text)] == [None] * 3
