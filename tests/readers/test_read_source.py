"""Source code and configuration: the text stays unchanged, definitions are headings."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from tests.readers.documents import Read, heading_texts, outline

from mergewise.text.sections import headings_at

PYTHON = '''\
"""Module: with a colon."""
import x

@decorated(a=":")
@again
class Größe(Base[int], metaclass=Meta):
    """What it is."""

    def one(self, a: dict[str, int] = {"ä:b": 1}, b=lambda x: 1) -> int: return 1

    async def get(
        self,
        url: str,  # where: there
        *, timeout: float = 5.0,
    ) -> None:
        def inner(): pass

if x:
    def late(): ...
else:
    try:
        class E(Exception): pass
    except E:
        def never(): ...
'''


def test_python(read_bytes: Read) -> None:
    document = read_bytes("größe.py", PYTHON)
    assert document.text == PYTHON
    assert outline(document) == [
        (1, "class Größe(Base[int], metaclass=Meta)"),
        (2, 'def one(self, a: dict[str, int] = {"ä:b": 1}, b=lambda x: 1) -> int'),
        (2, "async def get( self, url: str, *, timeout: float = 5.0, ) -> None"),
        (3, "def inner()"),
        (1, "def late()"),
        (1, "class E(Exception)"),
        (1, "def never()"),
    ]
    assert heading_texts(document)[:2] == [
        '@decorated(a=":")\n@again\nclass Größe(Base[int], metaclass=Meta):',
        'def one(self, a: dict[str, int] = {"ä:b": 1}, b=lambda x: 1) -> int:',
    ]
    assert document.title == "größe.py"


def test_python_of_another_version(read_bytes: Read) -> None:
    source = "class A:\n    # def no(): pass\n    def f(self):\n        print 'def g(): pass'\n"
    source += "def h(a,\n      b):\n    exec 'x'\n"
    assert outline(read_bytes("a.py", source)) == [(1, "class A"), (2, "def f(self)"), (1, "def h(a, b)")]


def test_deeply_nested_python(read_bytes: Read) -> None:
    assert read_bytes("a.py", "def f():\n    x = " + "(" * 50_000 + "\n").title == "a.py"
    deep = "\n".join(f"{' ' * n}def f{n}():" for n in range(90)) + f"\n{' ' * 90}pass\n"
    assert max(level for level, _ in outline(read_bytes("b.py", deep))) == 6


def test_long_heads_are_cut_only_in_the_path(read_bytes: Read) -> None:
    head = f"def f({', '.join(f'argument_{n}=None' for n in range(50))}):"
    document = read_bytes("a.py", f"{head}\n    pass\n")
    assert len(outline(document)[0][1]) <= 142
    assert heading_texts(document) == [head]


CASES: dict[str, dict[str, Any]] = tomllib.loads(
    (Path(__file__).parent / "definitions.toml").read_text(encoding="utf-8")
)


@pytest.mark.parametrize("name", CASES)
def test_other_languages(read_bytes: Read, name: str) -> None:
    case = CASES[name]
    document = read_bytes(name, case["source"])
    assert document.text == case["source"]
    assert outline(document) == [(level, title) for level, title in case["outline"]]
    assert document.title == name


@pytest.mark.parametrize("sign", ["a", "<", "(", "* ", "a(", "'", "/*", "`", "[", "@a ", "public ", "\\"])
@pytest.mark.parametrize("suffix", ["js", "java", "cpp", "rs", "sql", "rb", "yaml", "ini"])
def test_long_lines_of_one_character_are_fast(read_bytes: Read, suffix: str, sign: str) -> None:
    assert read_bytes(f"a.{suffix}", (sign * 1_900 + "\n") * 20 + "end\n").text


JAVA_COMMENTS = """package a;

/** A gate. */
@Named("x")
public class Gate {
    int level; // no comment of a method

    /**
     * Opens the gate.
     * @param angle degrees, at most 85
     */
    @Override
    public int open(int angle) {
        return 12;
    }

    // not directly above

    public void close(int force) {
    }
}
"""


def test_a_comment_belongs_to_the_definition_below_it(read_bytes: Read) -> None:
    document = read_bytes("Gate.java", JAVA_COMMENTS)
    assert outline(document) == [
        (1, "public class Gate"),
        (2, "public int open(int angle)"),
        (2, "public void close(int force)"),
    ]
    assert heading_texts(document)[:2] == ["/**", "/**"]
    assert headings_at(document.outline or (), document.text.index("at most 85"))[-1] == "public int open(int angle)"
    assert headings_at(document.outline or (), document.text.index("not directly"))[-1] == "public int open(int angle)"


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("a.go", "package a\n\n// Lift raises it.\n// Slowly.\nfunc Lift(load int) error {\n}\n"),
        ("a.rs", "/// Lift raises it.\n#[inline]\npub fn lift() {\n}\n"),
        ("a.rb", "x = 1\n# Lift raises it.\ndef lift(load)\nend\n"),
        ("a.toml", "a = 1\n# Lift raises it.\n[lift]\nb = 1\n"),
        ("a.ts", "/* Lift raises it. */\nexport function lift() {\n}\n"),
    ],
)
def test_comments_of_other_languages(read_bytes: Read, name: str, source: str) -> None:
    document = read_bytes(name, source)
    assert "ift" in "".join(headings_at(document.outline or (), document.text.index("raises")))


def test_comments_that_never_end_cost_linear_time(read_bytes: Read) -> None:
    assert read_bytes("a.java", "class A {}\n" + "/*\n" * 100_000).outline
