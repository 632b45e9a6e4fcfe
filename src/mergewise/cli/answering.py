"""Options of `ask` and `chat`, and the steps that answer a question and print the answer."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from mergewise import AnswerQuery, defaults
from mergewise.cli import last, settings
from mergewise.cli.asking import AskingOptions
from mergewise.cli.output import citation_lines, is_plain, say, say_aside, say_piece, say_warning, usage_line
from mergewise.cli.places import DocumentNames, locations_in
from mergewise.cli.trace import say_streams, say_trace
from mergewise.extend import answer_json
from mergewise.types import Answer, Context, JsonDict, Turn, Where, frozen

if TYPE_CHECKING:
    from mergewise import Index


@frozen
class AnswerOptions(AskingOptions):
    """Options of every command that answers."""

    causal: settings.CausalSetting = defaults.CAUSAL
    stream: settings.StreamSetting = None
    price_in: settings.PriceInSetting = 0.0
    price_out: settings.PriceOutSetting = 0.0


@dataclass(slots=True)
class Answerer:
    """Answerer of questions from an index. It prints the answers for people; the caller prints JSON."""

    options: AnswerOptions
    query: AnswerQuery
    index: Index
    _warned: bool = False

    def answer(self, question: str, where: Where | None, history: Sequence[Turn] = ()) -> Answer:
        chosen, shown = self.options, Shown()
        streams = not chosen.as_json and (sys.stdout.isatty() if chosen.stream is None else chosen.stream)
        query = replace(
            self.query, question=question, where=where, history=history, show=shown.show if streams else None
        )
        answer = self.index.ask(query)
        last.save(chosen.index_dir, last.of_answer(answer))
        # write the page before printing: the reader of a pipe may close it at any line
        chosen.write_page(answer, self.index)
        shown.check()
        if answer.instead_of and not self._warned:
            self._warned = True
            from mergewise import MODES

            needs = MODES[answer.instead_of].needs
            strategy, wanted = answer.context.strategy, answer.instead_of
            say_warning(f"{strategy} prefers the mode {wanted}, which needs {needs.what}: using {answer.mode}")
            say_aside(f"  {needs.hint}", None)
        if chosen.as_json:
            return answer
        names = DocumentNames(self.index.files)
        # a streamed answer lacks only its citations
        if shown.any:
            say()
            say_citations(answer, names)
        else:
            say_answer(answer, names)
        if chosen.trace:
            say_trace([*answer.context.trace, *answer.trace], locations_in(self.index))
            say_streams(answer)
        if answer.mode != "extractive" or answer.usage.calls:
            say_aside(usage_line(answer, chosen.price_in, chosen.price_out))
        return answer

    def as_dict(self, answer: Answer) -> JsonDict:
        return answer_json(answer, self.options.price_in, self.options.price_out, self.index.locations(answer.context))


@dataclass(slots=True)
class Shown:
    """Printer of a streamed answer. The answer is completed even if the output pipe closes."""

    any: bool = False
    lost: OSError | None = None

    def show(self, piece: str) -> None:
        self.any = True
        if self.lost is None:
            try:
                say_piece(piece)
            except OSError as error:
                self.lost = error

    def check(self) -> None:
        """Raise the error of a closed pipe, if one occurred."""
        if self.lost is not None:
            raise self.lost


def is_found(result: Answer | Context) -> bool:
    return result.found if isinstance(result, Answer) else bool(result.passages)


SHOWN, FOLDED = 600, 800
"""Characters of a quotation that a terminal shows, if it has more than `FOLDED`. `mergewise show` shows it whole."""
_LONG_QUOTATION = re.compile(rf"“((?:(?!” \[\d).){{{FOLDED},}})” \[(\d+)\]", re.DOTALL)


def say_answer(answer: Answer, names: DocumentNames) -> None:
    text = answer.text
    if answer.mode == "extractive" and not is_plain():
        text = folded(text)
    say(text, style="bold" if answer.sure else "yellow")
    say_citations(answer, names)


def folded(text: str) -> str:
    """Return an answer without the ends of long quotations, and with the command that shows them whole."""
    return _LONG_QUOTATION.sub(
        lambda quoted: f"“{quoted[1][:SHOWN].rpartition(' ')[0]} …” [{quoted[2]}] (whole: mergewise show {quoted[2]})",
        text,
    )


def say_citations(answer: Answer, names: DocumentNames) -> None:
    if answer.citations:
        say()
    for line in citation_lines(answer.citations, names):
        say(line, style="dim")
