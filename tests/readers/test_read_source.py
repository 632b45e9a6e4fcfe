"""Source code and configuration: the text is the file's own, definitions are its headings."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import dedent

import pytest

from mergewise.types import Document

Read = Callable[[str, "bytes | str"], Document]


def outline(document: Document) -> list[tuple[int, str]]:
    return [(heading.level, heading.title) for heading in document.outline or ()]


def marked(document: Document) -> list[str]:
    return [document.text[heading.start : heading.end] for heading in document.outline or ()]


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
    assert marked(document)[:2] == [
        '@decorated(a=":")\n@again\nclass Größe(Base[int], metaclass=Meta):',
        'def one(self, a: dict[str, int] = {"ä:b": 1}, b=lambda x: 1) -> int:',
    ]
    assert document.title == "größe.py"


def test_python_of_another_version(read_bytes: Read) -> None:
    source = "class A:\n    # def no(): pass\n    def f(self):\n        print 'def g(): pass'\n"
    source += "def h(a,\n      b):\n    exec 'x'\n"
    assert outline(read_bytes("a.py", source)) == [(1, "class A"), (2, "def f(self)"), (1, "def h(a, b)")]


def test_python_that_is_nested_without_end(read_bytes: Read) -> None:
    assert read_bytes("a.py", "def f():\n    x = " + "(" * 50_000 + "\n").title == "a.py"
    deep = "\n".join(f"{' ' * n}def f{n}():" for n in range(90)) + f"\n{' ' * 90}pass\n"
    assert max(level for level, _ in outline(read_bytes("b.py", deep))) == 6


def test_long_heads_are_cut_in_the_path_only(read_bytes: Read) -> None:
    head = f"def f({', '.join(f'argument_{n}=None' for n in range(50))}):"
    document = read_bytes("a.py", f"{head}\n    pass\n")
    assert len(outline(document)[0][1]) <= 142
    assert marked(document) == [head]


CASES = {
    "a.js": (
        """\
        // class No
        /* function no() {
        } */
        import {a} from 'b'
        export default class Foo extends Bar {
          constructor(a, b) {
            super(a)
            if (x) {
            }
            foo(function() {
            })
          }
          async get(url, { timeout = 5 } = {}) {
          }
        }
        export const add = (a, b) => a + b
        function* gen(a) { yield 1 }
        go(a)
        if (b) {
        }
        describe('x', () => {
          it('y', async () => {
          })
        })
        const s = `
        class Not {
        `
        """,
        [
            (1, "export default class Foo extends Bar"),
            (2, "constructor(a, b)"),
            (2, "async get(url, { timeout = 5 } = {})"),
            (1, "export const add = (a, b)"),
            (1, "function* gen(a)"),
        ],
    ),
    "a.ts": (
        """\
        export interface A<T> {
          x: number
        }
        export type B = string | null
        class X {
          private foo(a: string): Promise<void> {
          }
        }
        export function f<T>(
          a: T,
        ): T {
        """,
        [
            (1, "export interface A<T>"),
            (1, "export type B = string | null"),
            (1, "class X"),
            (2, "private foo(a: string): Promise<void>"),
            (1, "export function f<T>( a: T, ): T"),
        ],
    ),
    "A.java": (
        """\
        package a;
        public class A<T> extends B {
            private static final int X = f(1);
            @Override
            public <T> List<T> get(String a, int b)
                    throws IOException {
                if (a) {
                } else if (b) {
                }
                return foo(a);
            }
            A(int x) {
            }
        }
        """,
        [
            (1, "public class A<T> extends B"),
            (2, "public <T> List<T> get(String a, int b) throws IOException"),
            (2, "A(int x)"),
        ],
    ),
    "a.cs": (
        """\
        namespace A.B
        {
            public sealed class C : D
            {
                public int X { get; set; }
                public async Task<int> Go(int a, string b = "(x")
                {
                    using (var x = y) {
                    }
                }
            }
        }
        """,
        [
            (1, "namespace A.B"),
            (2, "public sealed class C : D"),
            (3, 'public async Task<int> Go(int a, string b = "(x")'),
        ],
    ),
    "a.cpp": (
        """\
        #include <a.h>
        #define MAX(a,b) ((a)>(b))
        static int foo(int a,
                       char *b)
        {
          while (x) {
          }
          bar(a);
        }
        int proto(void);
        int x = f(2);
        void Foo::bar(int x) const {
        }
        class B : public C {
         public:
          B(int a) : a_(a) {
          }
          B()
              : C(std::move(x)),
                other_(std::move(y)) {
          }
          B(long b) : same_(b == 1), a_(0) {
          }
        };
        """,
        [
            (1, "#define MAX(a,b) ((a)>(b))"),
            (1, "static int foo(int a, char *b)"),
            (1, "int proto(void)"),
            (1, "void Foo::bar(int x) const"),
            (1, "class B : public C"),
            (2, "B(int a) : a_(a)"),
            (2, "B() : C(std::move(x)), other_(std::move(y))"),
            (2, "B(long b) : same_(b == 1), a_(0)"),
        ],
    ),
    "a.go": (
        "package a\n\ntype A struct {\n\tx int\n}\n\nfunc (a *A) Get(x int) (string, error) {\n\tgo func() {\n\t}()\n}\n",
        [(1, "type A struct"), (1, "func (a *A) Get(x int) (string, error)")],
    ),
    "a.rs": (
        "pub struct A<'a> {\n    x: &'a str,\n}\nimpl<'a> A<'a> {\n    pub fn new(x: &'a str) -> Self {\n    }\n}\n",
        [(1, "pub struct A<'a>"), (1, "impl<'a> A<'a>"), (2, "pub fn new(x: &'a str) -> Self")],
    ),
    "a.rb": (
        "module A\n  class B < C\n    def get(url, timeout: 5) # def no\n    end\n  end\nend\n",
        [(1, "module A"), (2, "class B < C"), (3, "def get(url, timeout: 5)")],
    ),
    "a.php": (
        "<?php\nnamespace A;\nclass B {\n  public function get(string $a = 'x'): int {\n  }\n}\n",
        [(1, "namespace A"), (1, "class B"), (2, "public function get(string $a = 'x'): int")],
    ),
    "a.sh": ("#!/bin/sh\nfoo() {\n  echo\n}\nfunction bar {\n}\nfoo\n", [(1, "foo()"), (1, "function bar")]),
    "a.sql": (
        "-- create table no\nCREATE TABLE IF NOT EXISTS users (\n  id int\n);\ncreate or replace view v as\nselect 1;\n",
        [(1, "CREATE TABLE IF NOT EXISTS users"), (1, "create or replace view v as")],
    ),
    "a.toml": ("[project]\nname = 'x'\n[[a.b]]\nx = [1]\n[c] # c\n", [(1, "[project]"), (1, "[[a.b]]"), (1, "[c]")]),
    "a.yaml": (
        "services:\n  web:\n    image: x\nversion: 3\nvolumes: # some\n  - a\n",
        [(1, "services"), (1, "volumes")],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_other_languages(read_bytes: Read, name: str) -> None:
    source, expected = CASES[name]
    document = read_bytes(name, dedent(source))
    assert document.text == dedent(source)
    assert outline(document) == expected
    assert document.title == name


@pytest.mark.parametrize("sign", ["a", "<", "(", "* ", "a(", "'", "/*", "`", "[", "@a ", "public ", "\\"])
@pytest.mark.parametrize("suffix", ["js", "java", "cpp", "rs", "sql", "rb", "yaml", "ini"])
def test_long_lines_of_one_sign_come_to_an_end(read_bytes: Read, suffix: str, sign: str) -> None:
    assert read_bytes(f"a.{suffix}", (sign * 1_900 + "\n") * 20 + "end\n").text
