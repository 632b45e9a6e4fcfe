"""The command `chat`: a conversation about an index that stays open.

Every question sees the current state of the index, even if another process changed it. On a terminal, `readline` (if Python has
it) edits lines and keeps their history. Piped input has one question per line.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from threading import Thread

import typer

from mergewise import AnswerQuery
from mergewise.cli import batch, last, options
from mergewise.cli.answering import Answerer, AnswerOptions, is_found, say_citations
from mergewise.cli.batch import QuestionLine
from mergewise.cli.output import say, say_aside, say_error, say_json
from mergewise.cli.places import locations_in
from mergewise.cli.questions import say_context
from mergewise.cli.show import AROUND, excerpts_of, say_excerpts
from mergewise.cli.trace import say_trace
from mergewise.errors import MergewiseError, UsageError, one_of
from mergewise.extend import regular_bytes, state_directory, write_whole
from mergewise.types import Answer

TURNS = 20
"""Latest turns that a follow-up question may refer to."""
PROMPT = "? "
_MAX_HISTORY_BYTES = 1_000_000


@partial(options.with_options, without=["question"])
def chat(*, query: AnswerQuery, common: AnswerOptions) -> None:
    """Answer questions in a conversation. Needs an index; a chat model is optional.

    A follow-up question may refer to earlier ones. /help lists the commands, Ctrl-C cancels an answer, Ctrl-D quits. Piped input
    has one question per line.
    """
    conversation = Conversation(Answerer(common, query, common.open_index(scorer=common.scorer, causal=common.causal)))
    if sys.stdin.isatty():
        _talk(conversation)
    elif not batch.ask_all(conversation.take, common.as_json):
        raise typer.Exit(1)


@dataclass(slots=True)
class Conversation:
    """The turns so far, and the latest answer, which the slash commands show."""

    answerer: Answerer
    turns: list[tuple[str, str]] = field(default_factory=list)
    latest: Answer | None = None

    def take(self, line: QuestionLine) -> bool:
        """Answer a question or run a slash command. Return True if an answer was found."""
        word, _, rest = line.question.strip().partition(" ")
        # "/etc/hosts has what?" is a question, not a command
        if word.startswith("/") and word[1:].isalpha():
            if word not in COMMANDS:
                raise UsageError(f"unknown command: {word}", one_of(word, COMMANDS))
            if self.answerer.options.as_json and word not in ("/new", "/quit"):
                raise UsageError(f"{word} is not available with --json", "read the fields of the answer's JSON instead")
            self._run(word, rest.strip())
            return False
        chosen = self.answerer.options
        answer = self.answerer.answer(
            line.question, self.answerer.query.where if line.where is None else line.where, self.turns
        )
        self.latest = answer
        self.turns = [*self.turns, (line.question, answer.text)][-TURNS:]
        if chosen.as_json:
            say_json({**line.key, **self.answerer.as_dict(answer)}, indent=None)
            return is_found(answer)
        if answer.context.question != line.question:
            say_aside(f"searched for: {answer.context.question}")
        say()
        return is_found(answer)

    def _run(self, word: str, rest: str) -> None:
        """Run a slash command with the rest of its line."""
        answer, index = self.latest, self.answerer.index
        match word:
            case "/new":
                self.turns, self.latest = [], None
            case "/quit":
                raise typer.Exit
            case "/help":
                for name, about in COMMANDS.items():
                    say(f"{name + ' N' * (name == '/show'):9}  {about}")
            case "/show":
                if not rest:
                    raise UsageError("/show: missing number or document", "write /show 1 or /show cats.md:12")
                remembered, locations = None if answer is None else last.of_answer(answer), locations_in(index)
                say_excerpts(excerpts_of(index, locations, rest, AROUND, remembered), locations.names)
            case _ if answer is None:
                raise UsageError("no answer yet", "ask a question first")
            case "/context":
                say_context(answer.context, locations_in(index), trace=False)
            case "/trace":
                say_trace([*answer.context.trace, *answer.trace], locations_in(index))
            case "/sources":
                locations = locations_in(index)
                say_citations(answer, locations.names)
                cited = {citation.number for citation in answer.citations}
                for number, passage in enumerate(answer.context.passages, 1):
                    if number not in cited:
                        say(f"[{number}] {locations.of(passage.spans)}, not cited", style="dim")


COMMANDS: Mapping[str, str] = {
    "/sources": "list the sources of the last answer, then the passages not cited",
    "/show": "show a source of the last answer, or a document, with nearby lines",
    "/context": "show the context of the last answer",
    "/trace": "show the steps that led to the last answer",
    "/new": "start a new conversation",
    "/help": "list the commands",
    "/quit": "quit, like Ctrl-D",
}


def _talk(conversation: Conversation) -> None:
    """Read lines until the input ends. An error or Ctrl-C ends only the current answer."""
    index = conversation.answerer.index
    say_aside(f"{len(index)} documents in {index.store.directory}; /help lists commands, Ctrl-D quits")
    if index.chat is None:
        say_aside("no chat model: a follow-up question is searched with the words of the question before it")

    def load_models() -> None:
        with suppress(Exception):
            index.state()

    # load models while the user types; an error here is ignored, as the first question raises it again
    Thread(target=load_models, daemon=True).start()
    with _line_history():
        for number in count(1):
            try:
                line = _read_line().strip()
                if line:
                    conversation.take(QuestionLine(number, line))
            except EOFError:
                say()
                return
            except KeyboardInterrupt:
                say()
            except MergewiseError as error:
                say_error(error.message, error.hint)


def _read_line() -> str:
    if sys.stdout.isatty():
        return input(PROMPT)
    # standard output is a file: show the prompt on standard error
    sys.stderr.write(PROMPT)
    sys.stderr.flush()
    return input()


@contextmanager
def _line_history() -> Iterator[None]:
    """Enable line editing, and keep the history in the user's state directory, readable by the user alone."""
    try:
        import readline
    except ImportError:
        yield
        return
    # a user without a home has no state directory
    failures = (OSError, ValueError, RuntimeError)
    with suppress(*failures):
        for line in regular_bytes(_history_file(), _MAX_HISTORY_BYTES).decode("utf-8", "replace").split("\n"):
            readline.add_history(line)
    try:
        yield
    finally:
        end = readline.get_current_history_length() + 1
        lines = [readline.get_history_item(i) or "" for i in range(max(1, end - 1000), end)]
        with suppress(*failures):
            file = _history_file()
            file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_whole(file, "\n".join(lines).encode("utf-8", "replace"), 0o600)


def _history_file() -> Path:
    return state_directory() / "chat-history"
