"""Commands that ask: `ask` and `context`, one question or many."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from mergewise import defaults
from mergewise.cli import batch, last, options
from mergewise.cli.asking import QuestionOptions
from mergewise.cli.batch import STANDARD_INPUT, QuestionLine
from mergewise.cli.output import citation_lines, say, say_aside, say_json, say_piece, say_warning, usage_line
from mergewise.cli.places import DocumentNames, Locations, locations_in
from mergewise.cli.trace import say_streams, say_trace
from mergewise.errors import UsageError
from mergewise.jsonable import answer_json, context_json
from mergewise.ranges import short_repr
from mergewise.types import Answer, Context

if TYPE_CHECKING:
    from mergewise.engine import Index

Result = TypeVar("Result", Answer, Context)


@options.with_options
def ask(
    question: options.QuestionArgument,
    strategy: options.StrategyOption = defaults.STRATEGY,
    mode: options.ModeOption = None,
    causal: options.CausalOption = defaults.CAUSAL,
    max_tokens: options.MaxTokensOption = defaults.MAX_TOKENS,
    rounds: options.RoundsOption = 1,
    then: options.ThenOption = None,
    stream: Annotated[
        bool | None, typer.Option(help="Show a chat model's answer as it is written.", show_default="on a terminal")
    ] = None,
    price_in: options.PriceInOption = 0.0,
    price_out: options.PriceOutOption = 0.0,
    *,
    common: QuestionOptions,
) -> None:
    """Answer with citations: quoted sentences, or the words of a chat model. Exits with 1 where nothing was found."""
    index = common.open_index(causal)
    streams = not common.as_json and (sys.stdout.isatty() if stream is None else stream)

    warned = False

    def answer(question: str, where: str | None) -> Answer:
        nonlocal warned
        shown = Shown()
        answer = index.ask(
            question,
            strategy=strategy,
            budget=common.budget,
            where=where,
            mode=mode,
            rounds=rounds,
            then=then,
            max_tokens=max_tokens,
            show=shown.show if streams else None,
        )
        last.save(common.index_dir, last.of_answer(answer))
        # before anything else is printed: the reader of a pipe may go at any line
        common.write_page(answer, index)
        shown.check()
        if answer.instead_of and not warned:
            warned = True
            say_other_mode(answer)
        if common.as_json:
            return answer
        if shown.any:
            say()
            say_citations(answer, DocumentNames(index.files))
        else:
            say_answer(answer, DocumentNames(index.files))
        if common.trace:
            say_trace([*answer.context.trace, *answer.trace], locations_in(index))
            say_streams(answer)
        if answer.mode != "extractive" or answer.usage.calls:
            say_aside(usage_line(answer, price_in, price_out))
        return answer

    def as_dict(answer: Answer) -> dict[str, Any]:
        return answer_json(answer, price_in, price_out)

    _each_question(question, common, answer, as_dict)


@options.with_options
def context(
    question: options.QuestionArgument,
    strategy: options.StrategyOption = defaults.STRATEGY,
    rounds: options.RoundsOption = 1,
    then: options.ThenOption = None,
    form: options.FormatOption = "text",
    *,
    common: QuestionOptions,
) -> None:
    """The context that a model would be given, and where its passages stand. Exits with 1 where nothing was found."""
    from mergewise.generate.formats import FORMS

    if form not in FORMS:
        raise UsageError(f"there is no format {short_repr(form)}", f"one of: {', '.join(FORMS)}")
    if question == STANDARD_INPUT and form not in ("text", "json"):
        raise UsageError(f"--format {form} shows one question", "give the question itself instead of -, or --json")
    if form == "json":
        common = replace(common, as_json=True)
    index = common.open_index()

    def assemble(question: str, where: str | None) -> Context:
        context = index.context(
            question, strategy=strategy, budget=common.budget, where=where, rounds=rounds, then=then
        )
        last.save(common.index_dir, last.of_context(context))
        common.write_page(context, index)
        if form == "text" and not common.as_json:
            say_context(context, locations_in(index), common.trace)
        elif not common.as_json:
            say_form(form, context, index)
        return context

    _each_question(question, common, assemble, context_json)


@dataclass(slots=True)
class Shown:
    """Prints the pieces of an answer as they arrive. Where nobody reads any more, the answer is finished all the same."""

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
        """Raise what went wrong."""
        if self.lost is not None:
            raise self.lost


def _each_question(
    question: str,
    common: QuestionOptions,
    make: Callable[[str, str | None], Result],
    as_dict: Callable[[Result], dict[str, Any]],
) -> None:
    """Run `make` for the question, or for each line of standard input, and print the JSON of the result if it is asked for.

    `make` takes the question and its condition, writes the page, and prints the result for people.
    """

    def run_line(line: QuestionLine) -> bool:
        if not common.as_json:
            say(f"? {line.question}", style="cyan")
        result = make(line.question, common.where if line.where is None else line.where)
        if common.as_json:
            say_json({**line.key, **as_dict(result)}, indent=None)
        else:
            say()
        return _is_found(result)

    if question == STANDARD_INPUT:
        if common.html is not None:
            raise UsageError("--html shows one question", "give the question itself instead of -")
        succeeded = batch.ask_all(run_line, common.as_json)
    else:
        result = make(question, common.where)
        if common.as_json:
            say_json(as_dict(result))
        succeeded = _is_found(result)
    if not succeeded:
        raise typer.Exit(1)


def _is_found(result: Answer | Context) -> bool:
    return result.found if isinstance(result, Answer) else bool(result.passages)


def say_form(form: str, context: Context, index: Index) -> None:
    """The context for a program: nothing stands around it."""
    from mergewise.generate.formats import xml_of

    if form == "xml":
        say(xml_of(context))
        return
    messages = index.messages(context)
    if form == "messages":
        say_json([{"role": message.role, "content": message.text} for message in messages])
    else:
        say("\n\n".join(message.text for message in messages))


def say_other_mode(answer: Answer) -> None:
    """The mode that the strategy prefers, and what it lacks."""
    from mergewise.designs import MODES

    needs = MODES[answer.instead_of].needs
    say_warning(
        f"{answer.context.strategy} prefers the mode {answer.instead_of}, which needs {needs.what}: {answer.mode} answers"
    )
    say_aside(f"  {needs.hint}", None)


def say_answer(answer: Answer, names: DocumentNames) -> None:
    say(answer.text, style="bold" if answer.sure else "yellow")
    say_citations(answer, names)


def say_citations(answer: Answer, names: DocumentNames) -> None:
    if answer.citations:
        say()
    for line in citation_lines(answer.citations, names):
        say(line, style="dim")


def say_context(context: Context, locations: Locations, trace: bool) -> None:
    """The text, the places of its passages by their numbers, and with `trace` the steps."""
    if context.passages:
        say(context.text)
        say()
    else:
        say_aside("nothing was found")
    for number, passage in enumerate(context.passages, 1):
        say(f"[{number}] {locations.of(passage.spans)}", style="dim")
    if trace:
        say_trace(context.trace, locations)
    say_aside(f"{context.tokens} of {context.budget} tokens, {len(context.passages)} passages, {context.strategy}")
