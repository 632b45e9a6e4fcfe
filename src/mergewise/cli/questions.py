"""The commands `ask` and `context`, for one question or many."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import typer

from mergewise import AnswerQuery, Query
from mergewise.agents.results import Room, fitted
from mergewise.cli import batch, last, options
from mergewise.cli.answering import Answerer, AnswerOptions, is_found
from mergewise.cli.asking import AskingOptions
from mergewise.cli.batch import STANDARD_INPUT, QuestionLine
from mergewise.cli.output import is_indexing, is_plain, say, say_aside, say_error, say_json
from mergewise.cli.places import Locations, locations_in
from mergewise.cli.trace import say_trace
from mergewise.errors import UsageError, one_of
from mergewise.extend import context_json, run, short_repr
from mergewise.types import Answer, Context, JsonDict, Where

if TYPE_CHECKING:
    from mergewise import Index

Result = TypeVar("Result", Answer, Context)


@partial(options.with_options, without=["question"])
def ask(question: options.QuestionArgument, *, query: AnswerQuery, common: AnswerOptions) -> None:
    """Answer a question with citations. Needs an index; without a chat model, the answer quotes sentences.

    Exits with 1 if nothing was found.
    """
    answerer = Answerer(common, query, common.open_index(scorer=common.scorer, causal=common.causal))
    _each_question(question, query.where, common, answerer.index, answerer.answer, answerer.as_dict)


@partial(options.with_options, without=["question"])
def context(
    question: options.QuestionArgument, *, query: Query, common: AskingOptions, form: options.FormatOption = "text"
) -> None:
    """Print the context of a question, as a model would receive it. Needs an index.

    Exits with 1 if nothing was found.
    """
    from mergewise.extend import FORMS, xml_of

    if form not in FORMS:
        raise UsageError(f"unknown format: {short_repr(form)}", one_of(form, FORMS))
    if question == STANDARD_INPUT and form not in ("text", "json"):
        raise UsageError(f"--format {form} takes one question", "give the question instead of -, or use --json")
    if form == "json":
        common = replace(common, as_json=True)
    index = common.open_index(scorer=common.scorer, for_models=True)
    locations = locations_in(index)

    def written(context: Context) -> str:
        if form == "xml":
            return xml_of(context)
        # the task before the documents is the same for all questions
        return (
            f"{context.text}\n\n{_places(context, locations)}\n" if form == "text" else index.messages(context)[-1].text
        )

    def assemble(question: str, where: Where | None) -> Context:
        asked = replace(query, question=question, where=where)
        context = index.context(asked)
        if not common.as_json:

            async def within(budget: int) -> Context:
                return context if budget == context.budget else index.context(replace(asked, budget=budget))

            room = Room(context.budget, index.tokens)
            context = replace(run(fitted(within, written, room, room.budget, grow=False))[0], budget=room.budget)
            if room.left(written(context)) < 0:
                context = replace(context, passages=(), text="", tokens=0)
        last.save(common.index_dir, last.of_context(context))
        common.write_page(context, index)
        if common.as_json:
            return context
        if form == "text":
            say_context(context, locations, common.trace)
        elif form == "xml":
            say(written(context))
        elif form == "messages":
            say_json([{"role": message.role, "content": message.text} for message in index.messages(context)])
        else:
            say("\n\n".join(message.text for message in index.messages(context)))
        return context

    _each_question(
        question, query.where, common, index, assemble, lambda context: context_json(context, index.locations(context))
    )


def _each_question(
    question: str,
    where: Where | None,
    common: AskingOptions,
    index: Index,
    make: Callable[[str, Where | None], Result],
    as_dict: Callable[[Result], JsonDict],
) -> None:
    """Run `make` for the question, or for each line of standard input. With --json, print the result as JSON.

    `make` takes the question and its condition, writes the page, and prints the result for people.
    """

    def run_line(line: QuestionLine) -> bool:
        if not common.as_json:
            say(f"? {line.question}", style="cyan")
        result = make(line.question, where if line.where is None else line.where)
        if common.as_json:
            say_json({**line.key, **as_dict(result)}, indent=None)
        else:
            say()
        return is_found(result)

    if question == STANDARD_INPUT:
        if common.html is not None:
            raise UsageError("--html takes one question", "give the question instead of -")
        succeeded = batch.ask_all(run_line, common.as_json)
    else:
        result = make(question, where)
        if common.as_json:
            say_json(as_dict(result))
        succeeded = is_found(result)
    if not succeeded:
        if not len(index):
            hint = (
                "another process is indexing: ask again" if is_indexing(index) else "add some: mergewise index FOLDER"
            )
            say_error(f"{index.store.place} has no documents", hint)
        raise typer.Exit(1)


def _places(context: Context, locations: Locations) -> str:
    return "\n".join(f"[{number}] {locations.of(one.spans)}" for number, one in enumerate(context.passages, 1))


def say_context(context: Context, locations: Locations, trace: bool) -> None:
    """Print the text, the numbered places of its passages, and with `trace` the steps."""
    if context.passages:
        # a pipe gets the text as a model receives it
        say(context.text if is_plain() else re.sub(r"(?m)^(\[\d+\].*?)(?: ›)+$", r"\1", context.text))
        say()
        say(_places(context, locations), style="dim")
    else:
        say_aside("nothing fits the budget" if any(step.covers for step in context.trace) else "nothing was found")
    if trace:
        say_trace(context.trace, locations)
    elif context.may_lack:
        say_aside(f"There may be more: all evidence is held with a probability of {context.complete:.2f}")
    say_aside(f"{context.tokens} of {context.budget} tokens, {len(context.passages)} passages, {context.strategy}")
