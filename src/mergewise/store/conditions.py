"""Conditions on documents: a small language, parsed into a typed tree and translated to SQL for the database.

    any        all or all ...           all        negated and negated ...
    negated    not negated | (any) | true | false | test
    test       key [= == != <> < <= > >=] value | key [not] in (value, ...) | key [not] like 'pattern' | key is [not] null
    key        a name, or one in backticks or double quotes
    value      number | 'text' | true | false

Nothing else reaches the database. Keys are `id`, `title` and the metadata keys, and all values are quoted. An evaluation takes
time proportional to the number of documents.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, NoReturn, TypeAlias

from mergewise.errors import UsageError
from mergewise.ranges import short_repr

LONGEST = 100_000
"""Maximum length of a condition in characters."""
DEEPEST = 50
"""Maximum depth of nested brackets."""
LONGEST_PATTERN = 300
"""Maximum length of a `like` pattern in characters."""

Value: TypeAlias = str | int | float | bool

KIND_NAMES: Mapping[type, str] = {
    str: "a text in single quotes",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
}
_WORDS = frozenset("and or not in like is null true false".split())
_SIGNS = {"=": "=", "==": "=", "!=": "!=", "<>": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_NEGATIONS = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">", "and": "or", "or": "and"}
_NEGATIONS |= {"in": "not in", "like": "not like", "is null": "is not null"}
# all quantifiers are possessive, so that each character is read once
_TOKEN = re.compile(
    r"""\s*+(?:(?P<text>'(?:[^']++|'')*+')|(?P<quoted>`[^`]++`|"[^"]++")"""
    r"""|(?P<number>-?+(?:\d++(?:\.\d*+)?+|\.\d++)(?:[eE][+-]?\d++)?+)(?![\w.])"""
    r"""|(?P<word>[^\W\d]\w*+)|(?P<sign><=|>=|<>|!=|==|[=<>(),])|(?P<end>$))"""
)


class Comparison(NamedTuple):
    """A test of one key. `sign` is "=", "!=", "<", "<=", ">", ">=", "in", "like" or "is null" (without values)."""

    key: str
    kind: type
    sign: str
    values: tuple[Value, ...] = ()


class Junction(NamedTuple):
    """Conditions joined by "and" or "or", or one condition negated by "not"."""

    name: str
    parts: tuple[Condition, ...]


Condition: TypeAlias = Comparison | Junction | bool


def value_fault(value: object, kind: type | None = None) -> str:
    """Return the kind of value that a key of this type needs, or an empty text if the value is valid."""
    if type(value) not in KIND_NAMES or (
        kind is not None and type(value) is not kind and {type(value), kind} != {int, float}
    ):
        return " or ".join(KIND_NAMES.values()) if kind is None else KIND_NAMES[kind]
    if isinstance(value, float) and not math.isfinite(value):
        return "a finite number"
    return "a whole number of up to 64 bits" if type(value) is int and abs(value) >= 2**63 else ""


def sql_value(value: Value) -> str:
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else repr(value).lower()


def sql_of(condition: Condition, negated: bool = False) -> str:
    """Write the condition as SQL, with every name quoted and every operation in brackets.

    "not" is moved into the comparisons. Each comparison is then false for a document without the key, also for "not in", whose
    disjunctions the database would simplify to true.
    """
    if isinstance(condition, bool):
        return str(condition is not negated).lower()
    if isinstance(condition, Junction):
        if condition.name == "not":
            return sql_of(condition.parts[0], not negated)
        name = _NEGATIONS[condition.name] if negated else condition.name
        return _balanced(f" {name} ", [sql_of(part, negated) for part in condition.parts])
    key, values = f"`{condition.key}`", condition.values
    if any(isinstance(value, float) for value in values):
        values = tuple(map(float, values))
        key = key if condition.kind is float else f"cast({key} as double)"
    sign = _NEGATIONS[condition.sign] if negated else condition.sign
    written = ", ".join(map(sql_value, values))
    if sign == "not in":
        return f"(`{condition.key}` is not null and {key} not in ({written}))"
    return f"({key} {sign} {f'({written})' if sign == 'in' else written})"


def _balanced(between: str, parts: Sequence[str]) -> str:
    """Write a chain as a balanced tree, because the database walks it recursively."""
    if len(parts) < 3:
        return f"({between.join(parts)})"
    half = len(parts) // 2
    return f"({_balanced(between, parts[:half])}{between}{_balanced(between, parts[half:])})"


def parse_condition(text: str, kinds: Mapping[str, type]) -> Condition:
    """Parse a condition on keys of these names and types.

    Raises:
        UsageError: if the condition is invalid. The message names the position, and the hint shows a valid form.
    """
    return _Parser(text, kinds).parse()


class _Lexeme(NamedTuple):
    kind: str
    text: str
    at: int

    @property
    def word(self) -> str:
        """The text of a bare word or sign in lower case, otherwise empty."""
        return self.text.lower() if self.kind in ("word", "sign") else ""


class _Parser:
    """A recursive descent parser, with a method for each rule of the grammar above."""

    def __init__(self, text: str, kinds: Mapping[str, type]) -> None:
        self._text = text
        self._kinds, self._keys = kinds, f"keys: {', '.join(kinds)}"
        self._depth = 0
        if len(text) > LONGEST:
            raise UsageError(f"condition too long: {len(text):,} characters", f"use at most {LONGEST:,}")
        self._next = 0
        self._tokens: list[_Lexeme] = []
        at = 0
        while not self._tokens or self._tokens[-1].kind != "end":
            match = _TOKEN.match(text, at)
            if match is None:
                at += len(text[at:]) - len(text[at:].lstrip())
                self._refuse("unexpected character", "texts go in single quotes", _Lexeme("", text[at], at))
            kind = str(match.lastgroup)
            self._tokens.append(_Lexeme(kind, match[kind], match.start(kind)))
            at = match.end()

    def parse(self) -> Condition:
        condition = self._any()
        if self._token.kind != "end":
            self._refuse("nothing may follow here", "join conditions by and, or")
        return condition

    # -- rules

    def _any(self) -> Condition:
        return self._chain("or", lambda: self._chain("and", self._negated))

    def _chain(self, word: str, part: Callable[[], Condition]) -> Condition:
        parts = [part()]
        while self._takes(word):
            parts.append(part())
        return parts[0] if len(parts) == 1 else Junction(word, tuple(parts))

    def _negated(self) -> Condition:
        negated = False
        while self._takes("not"):
            negated = not negated
        if self._takes("("):
            self._depth += 1
            if self._depth > DEEPEST:
                self._refuse("too many brackets", f"at most {DEEPEST} within each other")
            test = self._any()
            self._depth -= 1
            self._expect(")")
        elif self._token.word in ("true", "false"):
            test = self._advance().word == "true"
        else:
            test = self._test()
        return Junction("not", (test,)) if negated else test

    def _test(self) -> Condition:
        key = self._key()
        kind = self._kinds[key]
        if self._takes("is"):
            negated = self._takes("not")
            self._expect("null")
            test = Comparison(key, kind, "is null")
            return Junction("not", (test,)) if negated else test
        token = self._token
        if token.word in _SIGNS:
            self._advance()
            if kind is bool and _SIGNS[token.word] not in ("=", "!="):
                self._refuse("true and false have no order", f"{key} = true", token)
            return Comparison(key, kind, _SIGNS[token.word], (self._value(key),))
        negated = self._takes("not")
        if self._takes("in"):
            self._expect("(")
            values = [self._value(key)]
            while self._takes(","):
                values.append(self._value(key))
            self._expect(")")
            test = Comparison(key, kind, "in", tuple(values))
        elif self._takes("like"):
            token = self._token
            pattern = self._value(key)
            if not isinstance(pattern, str) or len(pattern) > LONGEST_PATTERN:
                self._refuse("invalid pattern", f"a text in single quotes, up to {LONGEST_PATTERN} characters", token)
            test = Comparison(key, kind, "like", (pattern,))
        else:
            self._refuse(
                "expected a comparison", "year >= 2020, lang in ('en', 'de'), title like 'A%', year is not null"
            )
        return Junction("not", (test,)) if negated else test

    def _key(self) -> str:
        token = self._token
        if token.kind not in ("word", "quoted") or token.word in _WORDS:
            self._refuse("expected a key", self._keys)
        self._advance()
        name = token.text[1:-1] if token.kind == "quoted" else token.text
        same = [name] if name in self._kinds else [key for key in self._kinds if key.lower() == name.lower()]
        if len(same) != 1:
            self._refuse(f"unknown key {short_repr(name)}", self._keys, token)
        return same[0]

    def _value(self, key: str) -> Value:
        token = self._advance()
        value: Value
        if token.kind == "text":
            value = token.text[1:-1].replace("''", "'")
        elif token.kind == "number":
            plain = token.text.lstrip("-")
            # replace -0.0 by 0.0, because the database orders them
            value = int(token.text) if plain.isdecimal() and len(plain) < 30 else float(token.text) or 0.0
        elif token.word in ("true", "false"):
            value = token.word == "true"
        elif token.word == "null":
            self._refuse("null cannot be compared", f"{key} is null", token)
        else:
            self._refuse("expected a value", f"{key} is {KIND_NAMES[self._kinds[key]]}", token)
        if wanted := value_fault(value, self._kinds[key]):
            self._refuse(f"invalid value for {short_repr(key)}", f"expected {wanted}", token)
        return value

    # -- tokens

    @property
    def _token(self) -> _Lexeme:
        return self._tokens[self._next]

    def _advance(self) -> _Lexeme:
        token = self._token
        self._next = min(self._next + 1, len(self._tokens) - 1)
        return token

    def _takes(self, word: str) -> bool:
        if self._token.word != word:
            return False
        self._advance()
        return True

    def _expect(self, word: str) -> None:
        if not self._takes(word):
            self._refuse(f"expected {word}", "such as lang in ('en', 'de') and (year > 2020 or year is null)")

    def _refuse(self, reason: str, hint: str, token: _Lexeme | None = None) -> NoReturn:
        token = token or self._token
        near = "its end" if token.kind == "end" else f"{short_repr(token.text)} (character {token.at + 1})"
        raise UsageError(f"invalid condition {short_repr(self._text)}: {reason} at {near}", hint)
