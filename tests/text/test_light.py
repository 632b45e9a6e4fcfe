"""Display of light mark-up: code, emphasis, and the flow of lines."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mergewise.text.light import _CODE, body_margin, code_by_margin, code_in, cuts_code, laid_out, styles_in

MARKDOWN = "Use it:\n\n```python\nx = 1\n\ny = **x\n```\n\nDone.\n"


def code_found_line_by_line(text: str) -> list[tuple[int, int]]:
    return [match.span("indented" if match["indented"] else 0) for match in _CODE.finditer(text)]


@given(st.text(alphabet="`~: .\n ax-", max_size=80))
def test_code_is_found_as_if_every_line_were_tried(text: str) -> None:
    assert list(code_in(text)) == code_found_line_by_line(text)


def test_code_of_real_manuals_is_found_as_if_every_line_were_tried(manuals: Path) -> None:
    for path in sorted(manuals.rglob("*.rst"))[:4]:
        text = path.read_text(encoding="utf-8")
        assert list(code_in(text)) == code_found_line_by_line(text) != []


@pytest.mark.parametrize(
    ("text", "styled"),
    [
        ("a **b c** d", [("**", "mark"), ("b c", "strong"), ("**", "mark")]),
        ("an *em* and 2 * 3 * 4", [("*", "mark"), ("em", "em"), ("*", "mark")]),
        ("call `f(**x)` now", [("`", "mark"), ("f(**x)", "code"), ("`", "mark")]),
        ("call ``f(`x)`` now", []),
        ("call ``f(x)`` now", [("``", "mark"), ("f(x)", "code"), ("``", "mark")]),
        ("[a `x`](u)", [("[", "mark"), ("`", "mark"), ("x", "code"), ("`", "mark"), ("](u)", "mark")]),
        ("a :class:`Client` here", [(":class:`", "mark"), ("Client", "code"), ("`", "mark")]),
        ("snake_case_name and __init__", []),
        ("a\n<Note kind='*b*'>\n*c* <B>", [("<Note kind='*b*'>\n", "mark"), ("*", "mark"), ("c", "em"), ("*", "mark")]),
    ],
)  # fmt: skip
def test_styles(text: str, styled: list[tuple[str, str]]) -> None:
    assert [(text[start:end], name) for start, end, name in styles_in(text, ())] == styled


def test_code_has_no_styles_but_its_fences() -> None:
    marks = [MARKDOWN[start:end] for start, end, _ in styles_in(MARKDOWN, code_in(MARKDOWN))]
    assert marks == ["```python\n", "```"]


@given(st.text(alphabet="*`[]():_<> \nab", max_size=60))
def test_styles_lie_inside_the_text_and_do_not_cross(text: str) -> None:
    styles = styles_in(text, ())
    assert all(0 <= start < end <= len(text) for start, end, _ in styles)
    for a, b, _ in styles:
        assert all(d <= a or b <= c or (a <= c and d <= b) or (c <= a and b <= d) for c, d, _ in styles)


def test_paragraphs_and_items_are_lines_and_code_keeps_its_own() -> None:
    text = "One long\nsentence.\n\n- first\n  goes on\n- second\n\n" + MARKDOWN + "\n| a | b |\n|---|---|\n| 1 | 2 |\n"
    assert laid_out(text, code_in(text)).split("\n") == [
        "One long sentence.",
        "- first goes on",
        "- second",
        "Use it:",
        "    x = 1",
        "    y = **x",
        "Done.",
        "| a | b |",
        "|---|---|",
        "| 1 | 2 |",
    ]


def test_code_by_its_margin() -> None:
    text = laid_out("Run:\n\n    a = 1\n        b\n\nThen stop.")
    assert text == "Run:\n    a = 1\n        b\nThen stop."
    assert [text[start:end] for start, end in code_by_margin(text)] == ["    a = 1\n        b\n"]
    assert code_by_margin("    - a nested item\n") == ()


def test_blanked_mark_up_leaves_no_gaps() -> None:
    assert laid_out("The **default** is [five](https://a.b/c).") == "The default is five."


def test_cuts_within_code() -> None:
    code = code_in(MARKDOWN)
    cut = MARKDOWN.index("\n\ny =")
    assert cuts_code(MARKDOWN, code, cut)
    assert not cuts_code(MARKDOWN, code, MARKDOWN.index("x = 1")) and not cuts_code(MARKDOWN, code, 3)


def test_a_line_with_only_a_component_is_not_text() -> None:
    text = '<YouWillLearn>\n- One\n</YouWillLearn>\n<LearnMore path="/a">\nRead on.\n</LearnMore>'
    assert laid_out(text) == "- One\nRead on."
    assert laid_out("```jsx\n<Intro>\n```", ((0, 19),)) == "    <Intro>"


def test_a_word_that_begins_with_a_dot_keeps_the_space_before_it() -> None:
    assert laid_out("Set it or :attr:`.Request.max` and `now`_ .", []) == "Set it or .Request.max and now."


def test_body_of_a_directive_is_prose_and_code_in_it_is_code() -> None:
    text = ".. py:data:: RETRIES\n\n    Number of tries.\n    At least one.\n\n        run(3)\n\n    Default: 3\n"
    line = text.index("    Number")
    assert body_margin(text, line) == 4
    assert laid_out(text[line:], (), 4) == "Number of tries. At least one.\n    run(3)\nDefault: 3"
    assert body_margin(".. code-block:: python\n\n    run(3)\n", 24) == 0
    assert body_margin("A list::\n\n    run(3)\n", 10) == 0


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("A::\n\n   f(x)\n\n       g(x)\n\n  More.\n", ["   f(x)\n\n       g(x)\n\n"]),
        ("   So::\n\n       f(x)\n\n   .. note::\n\n      Not this.\n", ["       f(x)\n\n"]),
        ("- Item::\n\n      f(x)\n\n- Next.\n\n   - Deeper.\n", ["      f(x)\n\n"]),
        ("   .. code-block:: sh\n      :caption: Run\n\n      run\n\n   Text.\n", ["      run\n\n"]),
        (".. note::\n\n   Text.\n", []),
        (".. prompt:: bash\n\n   run\n", ["   run\n"]),
    ],
)
def test_code_ends_with_its_margin_and_directives_of_text_have_none(text: str, code: list[str]) -> None:
    assert [text[start:end] for start, end in code_in(text)] == code
