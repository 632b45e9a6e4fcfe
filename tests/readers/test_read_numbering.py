"""Word's numbers, counted by hand."""

from __future__ import annotations

import pytest

from mergewise.readers.formulas import formula
from mergewise.readers.numbering import Level, Numbering
from mergewise.readers.xml import parse_xml

OUTER, INNER = Level("decimal", "%1."), Level("lowerLetter", "%1.%2)")


def numbering(*levels: Level) -> Numbering:
    return Numbering({"7": "def", "8": "def"}, {("def", depth): level for depth, level in enumerate(levels)})


def test_inner_levels_restart_below_each_outer_item() -> None:
    counter = numbering(OUTER, INNER)
    labels = [counter.next_label("7", depth) for depth in (0, 1, 1, 0, 1)]
    assert labels == ["1.", "1.a)", "1.b)", "2.", "2.a)"]


def test_lists_of_one_definition_share_their_counters() -> None:
    counter = numbering(Level("decimal", "%1.", start=4))
    assert [counter.next_label(name, 0) for name in ("7", "8", "none")] == ["4.", "5.", ""]


@pytest.mark.parametrize(
    ("kind", "start", "label"),
    [
        ("upperRoman", 1994, "MCMXCIV"),
        ("lowerRoman", 4, "iv"),
        ("lowerLetter", 26, "z"),
        ("upperLetter", 28, "BB"),
        ("ordinalText", 3, "3"),
        ("bullet", 1, "-"),
        ("none", 1, ""),
    ],
)
def test_formats(kind: str, start: int, label: str) -> None:
    assert numbering(Level(kind, "%1", start)).next_label("7", 0) == label


def math(body: str) -> str:
    return formula(parse_xml(f'<oMath xmlns:m="m">{body}</oMath>'.encode()))


def test_formulas_have_only_needed_brackets() -> None:
    run = "<r><t>{}</t></r>".format
    total = run("a+b")
    assert math(f"<f><num>{total}</num><den>{run('c')}</den></f>") == "(a+b)/c"
    assert math(f"<sSubSup><e>{run('x')}</e><sub>{run('i')}</sub><sup>{total}</sup></sSubSup>") == "x_i^(a+b)"
    assert math(f"<rad><deg>{run('3')}</deg><e>{run('x')}</e></rad>") == "3√x"
    assert math(f"<d><e>{run('x')}</e><e>{run('y')}</e></d>") == "(x, y)"
