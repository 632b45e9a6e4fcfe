"""The reader of conditions on documents: from a small part of SQL to a tree with types, or an error that names the place.

condition   all or all ...          all        not-term and not-term ...       not-term  not not-term | test
test        sum [= != <> < <= > >= sum] | sum is [not] null | true | false | sum [not] in (sum, ...)
            | sum [not] between sum and sum | sum [not] like | ilike 'pattern'
sum         product + - || product ...             product    factor * / % factor ...
factor      - factor | atom :: type ...
atom        number | 'text' | date 'day' | true | false | column | `column` | "column" | function(condition, ...)
            | cast(condition as type) | (condition)
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import NoReturn

from mergewise.errors import UsageError
from mergewise.ranges import short_repr
from mergewise.store.conditions import FUNCTIONS, ColumnReference, Condition, Constant, Kind, Operation

LONGEST = 100_000
"""Characters of a condition."""
DEEPEST = 50
"""Operations within operations, brackets included."""
LONGEST_PATTERN = 300

_NAMES: Mapping[Kind, str] = {
    "text": "a text",
    "whole": "a whole number",
    "fraction": "a number",
    "truth": "true or false",
    "date": "a date",
    "list": "a list of texts",
}
_KINDS: Mapping[type, Kind] = {str: "text", int: "whole", float: "fraction", bool: "truth"}
# names of types in casts
_CASTS: Mapping[str, Kind] = {
    **dict.fromkeys(("text", "string", "varchar", "char"), "text"),
    **dict.fromkeys(("int", "integer", "bigint", "long"), "whole"),
    **dict.fromkeys(("float", "double", "real"), "fraction"),
    **dict.fromkeys(("bool", "boolean"), "truth"),
    "date": "date",
}
_RESERVED = frozenset("and or not is in between like ilike null true false cast as".split())
_COMPARISONS = {"=": "=", "==": "=", "!=": "!=", "<>": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
# possessive throughout, so that it reads each character once
_TOKEN = re.compile(
    r"""\s*+(?:(?P<text>'(?:[^']++|'')*+')|(?P<quoted>`[^`]++`|"[^"]++")"""
    r"""|(?P<number>(?:\d++(?:\.\d*+)?+|\.\d++)(?:[eE][+-]?\d++)?+)(?![\w.])"""
    r"""|(?P<word>[^\W\d]\w*+)|(?P<sign><=|>=|<>|!=|==|\|\||::|[=<>+\-*/%(),])|(?P<end>$))"""
)
# what no value of a kind can be
_NO_CAST: Mapping[Kind, frozenset[Kind]] = {
    "text": frozenset({"truth"}),
    "whole": frozenset({"truth"}),
    "fraction": frozenset({"truth"}),
    "truth": frozenset({"whole", "fraction"}),
    "date": frozenset({"whole", "fraction", "truth"}),
    "list": frozenset(),
}


def parse_condition(text: str, kinds: Mapping[str, type]) -> Condition:
    """The tree of a condition on columns of these names and Python types.

    Raises UsageError, which names the place and what may stand there.
    """
    return _Parser(text, {name: _KINDS[kind] for name, kind in kinds.items()}).parse()


@dataclass(frozen=True, slots=True)
class _Lexeme:
    kind: str
    text: str
    at: int

    @property
    def word(self) -> str:
        """In lower case, where it is a bare word or a sign."""
        return self.text.lower() if self.kind in ("word", "sign") else ""


class _Parser:
    """One method a rule of the grammar above."""

    def __init__(self, text: str, kinds: Mapping[str, Kind]) -> None:
        self._text = text
        self._kinds = kinds
        self._brackets = 0
        if len(text) > LONGEST:
            raise UsageError(f"the condition has {len(text):,} characters", f"at most {LONGEST:,}")
        self._tokens = self._split()
        self._next = 0

    def parse(self) -> Condition:
        condition = self._condition()
        if self._token.kind != "end":
            self._refuse("nothing may follow here", "join conditions by and, or")
        return self._of_kind(condition, "truth", self._tokens[0])

    def _split(self) -> list[_Lexeme]:
        tokens: list[_Lexeme] = []
        at = 0
        while not tokens or tokens[-1].kind != "end":
            match = _TOKEN.match(self._text, at)
            if match is None:
                at += len(self._text[at:]) - len(self._text[at:].lstrip())
                self._refuse("this cannot stand here", "texts go in single quotes", _Lexeme("", self._text[at], at))
            kind = str(match.lastgroup)
            tokens.append(_Lexeme(kind, match[kind], match.start(kind)))
            at = match.end()
        return tokens

    # -- rules

    def _condition(self) -> Condition:
        return self._chain("or", lambda: self._chain("and", self._negated))

    def _chain(self, word: str, part: Callable[[], Condition]) -> Condition:
        first, operands = self._token, [part()]
        while self._takes(word):
            operands.append(part())
        if len(operands) == 1:
            return operands[0]
        return self._operation(word, [self._of_kind(operand, "truth", first) for operand in operands], first)

    def _negated(self) -> Condition:
        negations = 0
        while self._takes("not"):
            negations += 1
        first, test = self._token, self._test()
        return self._operation("not", [self._of_kind(test, "truth", first)], first) if negations % 2 else test

    def _test(self) -> Condition:
        at, left = self._token, self._sum()
        if self._token.word in _COMPARISONS:
            sign = self._advance().word
            return self._operation(_COMPARISONS[sign], self._alike([left, self._sum()], at), at)
        if self._takes("is"):
            return self._state_of(left, at)
        negated = self._takes("not")
        if self._takes("in"):
            test = self._operation("in", self._alike([left, *self._in_brackets(self._sum)], at), at)
        elif self._takes("between"):
            low = self._sum()
            self._expect("and")
            test = self._operation("between", self._alike([left, low, self._sum()], at), at)
        elif self._token.word in ("like", "ilike"):
            word = self._advance().word
            pattern = self._pattern(self._sum(), self._token)
            test = self._operation(word, [self._of_kind(left, "text", at), pattern], at)
        elif negated:
            self._refuse("not goes with in, between or like here", "year not in (2020, 2021)")
        else:
            return left
        return self._operation("not", [test], at) if negated else test

    def _state_of(self, left: Condition, at: _Lexeme) -> Condition:
        """What stands behind `is`."""
        negated, state = self._takes("not"), self._advance()
        if state.word not in ("null", "true", "false"):
            self._refuse("is goes with null, true or false", "year is not null", state)
        if state.word != "null":
            self._of_kind(left, "truth", at)
        elif isinstance(left, Operation) and left.name == "regexp_match":
            self._refuse("regexp_match is true or false", "leave out is null", at)
        return self._operation(f"is {'not ' if negated else ''}{state.word}", [left], at)

    def _sum(self) -> Condition:
        at, left = self._token, self._product()
        while self._token.word in ("+", "-", "||"):
            sign = self._advance().word
            left = self._arithmetic(sign, left, self._product(), at)
        return left

    def _product(self) -> Condition:
        at, left = self._token, self._factor()
        while self._token.word in ("*", "/", "%"):
            sign = self._advance().word
            left = self._arithmetic(sign, left, self._factor(), at)
        return left

    def _arithmetic(self, sign: str, left: Condition, right: Condition, at: _Lexeme) -> Condition:
        if sign == "||":
            return self._operation(sign, [self._of_kind(part, "text", at) for part in (left, right)], at, "text")
        both = self._alike([self._number(left, at), self._number(right, at)], at)
        return self._operation(sign, both, at, both[0].kind)

    def _factor(self) -> Condition:
        at = self._token
        if self._takes("-"):
            if self._token.kind == "number":
                return self._casts(self._constant(-1), at)
            with_sign = self._nested(self._factor)
            return self._operation("negative", [self._number(with_sign, at)], at, with_sign.kind)
        return self._casts(self._atom(), at)

    def _casts(self, value: Condition, at: _Lexeme) -> Condition:
        while self._takes("::"):
            value = self._cast(value, at)
        return value

    def _atom(self) -> Condition:
        token = self._token
        if token.kind == "number":
            return self._constant()
        if token.kind == "text":
            return Constant(self._unquoted(self._advance()), "text")
        if token.kind == "quoted":
            return self._column(self._advance(), token.text[1:-1])
        if self._takes("("):
            inner = self._nested(self._condition)
            self._expect(")")
            return inner
        if token.word in ("true", "false"):
            return Constant(self._advance().word == "true", "truth")
        if self._takes("cast"):
            self._expect("(")
            value = self._nested(self._condition)
            self._expect("as")
            value = self._cast(value, token)
            self._expect(")")
            return value
        if token.kind == "word" and token.word not in _RESERVED:
            self._advance()
            if token.word == "date" and self._token.kind == "text":
                return self._day(self._advance())
            return self._call(token) if self._token.word == "(" else self._column(token, token.text)
        if token.word == "null":
            self._refuse("null is compared with nothing", "year is null", token)
        return self._refuse("a column, a number or a text in single quotes is missing", self._columns)

    def _constant(self, sign: int = 1) -> Constant:
        token = self._advance()
        if token.text.isdecimal() and token.text.isascii():
            value = sign * int(token.text) if len(token.text) < 30 else 2**64
            if abs(value) >= 2**63:
                self._refuse("whole numbers have up to 64 bits", "write a smaller number", token)
            return Constant(value, "whole")
        # -0.0 is 0.0: the database orders them
        fraction = sign * float(token.text) or 0.0
        if not math.isfinite(fraction):
            self._refuse("the number is too large", "write a smaller number", token)
        return Constant(fraction, "fraction")

    def _unquoted(self, token: _Lexeme) -> str:
        return token.text[1:-1].replace("''", "'")

    def _day(self, token: _Lexeme) -> Constant:
        try:
            return Constant(date.fromisoformat(self._unquoted(token)), "date")
        except ValueError:
            self._refuse("this is no day", "date '2024-05-01'", token)

    def _column(self, token: _Lexeme, name: str) -> ColumnReference:
        if name not in self._kinds:
            same = [known for known in self._kinds if known.lower() == name.lower()]
            if len(same) != 1:
                self._refuse(f"there is no column {short_repr(name)}", self._columns, token)
            name = same[0]
        return ColumnReference(name, self._kinds[name])

    def _call(self, token: _Lexeme) -> Condition:
        name = token.word
        function = FUNCTIONS.get(name)
        if function is None:
            self._refuse(f"there is no function {name}", f"functions: {', '.join(FUNCTIONS)}", token)
        operands = self._in_brackets(self._condition)
        takes = (*function.takes, *function.takes[-1:] * (len(operands) - 1)) if function.many else function.takes
        if len(takes) != len(operands):
            self._refuse(f"{name} takes {len(takes)} arguments", " and ".join(map(_NAMES.__getitem__, takes)), token)
        if name == "coalesce":
            alike = self._alike(operands, token)
            return self._operation(name, alike, token, alike[0].kind)
        operands = [self._of_kind(operand, kind, token) for operand, kind in zip(operands, takes, strict=True)]
        if function.fixed is not None:
            operands[function.fixed] = self._fixed(operands[function.fixed], token)
        return self._operation(name, operands, token, function.gives)

    def _fixed(self, operand: Condition, token: _Lexeme) -> Constant:
        if isinstance(operand, Constant) and isinstance(operand.value, str):
            return self._pattern(operand, token)
        if isinstance(operand, Constant) and isinstance(operand.value, int) and operand.value > 0:
            return operand
        return self._refuse(
            "an argument must be written out here", "a text in single quotes, or a number above 0", token
        )

    def _pattern(self, operand: Condition, token: _Lexeme) -> Constant:
        if isinstance(operand, Constant) and isinstance(operand.value, str) and len(operand.value) <= LONGEST_PATTERN:
            return operand
        return self._refuse(
            "a pattern is missing", f"a text in single quotes, up to {LONGEST_PATTERN} characters", token
        )

    def _cast(self, value: Condition, at: _Lexeme) -> Condition:
        token = self._advance()
        kind = _CASTS.get(token.word)
        if kind is None:
            self._refuse("a type is missing", f"types: {', '.join(_CASTS)}", token)
        if (
            value.kind == "list"
            or (kind == "date" and value.kind not in ("text", "date"))
            or kind in _NO_CAST[value.kind]
        ):
            self._refuse(f"{_NAMES[value.kind]} is no {token.word}", "cast a text, or leave the cast out", at)
        return value if value.kind == kind else self._operation("cast", [value], at, kind)

    # -- kinds

    def _alike(self, operands: Sequence[Condition], at: _Lexeme) -> list[Condition]:
        """All of one kind: whole numbers become fractions beside fractions."""
        kinds = {operand.kind for operand in operands}
        if kinds == {"whole", "fraction"}:
            return [self._of_kind(operand, "fraction", at) for operand in operands]
        for operand in operands[1:]:
            if operand.kind != operands[0].kind:
                known = f"{_NAMES[operands[0].kind]} is compared with {_NAMES[operand.kind]}"
                self._refuse(
                    known, "texts go in single quotes, numbers in none; cast(year as text) turns one into the other", at
                )
        if "list" in kinds:
            self._refuse("a list is compared with nothing", "array_has(string_to_array(keywords, ', '), 'owls')", at)
        return list(operands)

    def _number(self, operand: Condition, at: _Lexeme) -> Condition:
        return operand if operand.kind == "whole" else self._of_kind(operand, "fraction", at)

    def _of_kind(self, operand: Condition, kind: Kind, at: _Lexeme) -> Condition:
        if operand.kind == kind:
            return operand
        if kind == "fraction" and operand.kind == "whole":
            if isinstance(operand, Constant):
                return Constant(float(operand.value), "fraction")  # type: ignore[arg-type]
            return self._operation("cast", [operand], at, "fraction")
        return self._refuse(
            f"this is {_NAMES[operand.kind]}, not {_NAMES[kind]}", "such as year > 2020 and lang = 'en'", at
        )

    def _operation(self, name: str, operands: Sequence[Condition], at: _Lexeme, kind: Kind = "truth") -> Operation:
        depth = 1 + max(operand.depth if isinstance(operand, Operation) else 0 for operand in operands)
        if depth > DEEPEST:
            self._refuse("this is too deep", f"at most {DEEPEST} operations within each other", at)
        return Operation(name, tuple(operands), kind, depth)

    # -- tokens

    @property
    def _token(self) -> _Lexeme:
        return self._tokens[self._next]

    @property
    def _columns(self) -> str:
        return f"columns: {', '.join(self._kinds)}"

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
            self._refuse(f"{word} is missing", "year between 2020 and 2024, lang in ('en', 'de')")

    def _in_brackets(self, rule: Callable[[], Condition]) -> list[Condition]:
        self._expect("(")
        parts = [self._nested(rule)]
        while self._takes(","):
            parts.append(self._nested(rule))
        self._expect(")")
        return parts

    def _nested(self, rule: Callable[[], Condition]) -> Condition:
        self._brackets += 1
        if self._brackets > DEEPEST:
            self._refuse("this is too deep", f"at most {DEEPEST} brackets within each other")
        inner = rule()
        self._brackets -= 1
        return inner

    def _refuse(self, reason: str, hint: str, token: _Lexeme | None = None) -> NoReturn:
        token = token or self._token
        near = "its end" if token.kind == "end" else f"{short_repr(token.text)} (character {token.at + 1})"
        shown = short_repr(self._text)
        raise UsageError(f"the condition {shown} was not understood at {near}: {reason}", hint)
