"""Tokens that an agent reads until it was shown all evidence for a question over manuals: with our tools, and with others.

python -m benchmarks.agents --corpus MANUALS [--qmd "bun .../qmd.js"] [--rg rg] [--half report]
python -m benchmarks.agents --corpus MANUALS --mcp "COMMAND ..." --search TOOL:ARGUMENT --read TOOL:ARGUMENT

A scripted agent stands for a model, with one fixed policy for all systems. It searches with the question, then reads the
documents that the results name, in their order, page by page, until all evidence was shown or `MOST_CALLS` calls were made.
Searching is:

- mergewise: `context` with growing budgets in one session, which shows nothing twice;
- grep: our `grep` for the four rarest words of the question; ripgrep: the same words with two lines around. Documents are
  then read in the order of the rare words that they hold, which favours both;
- qmd: its BM25 search, five results, with fewer words until some document has all of them;
- another MCP server: the tool of `--search`.

All that it reads counts, in tokens of o200k; the schemas of our tools once a session, those of the others not at all. Sessions
are three questions about neighbouring pages. A line of 20 characters or more of a search that was shown
as often as it occurs is a repeat; evidence that was shown before counts as shown.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import shlex
import subprocess
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from mcp import Client, StdioServerParameters

import mergewise as mw
from mergewise.models.o200k import count_o200k
from mergewise.server.mcp.library import LocalCallers
from mergewise.server.mcp.tools import mcp_server

QUESTIONS, SESSIONS = 40, 20
MOST_CALLS = 15
BUDGETS = (300, 300, 300, 600, 600, 1200, 2400)
"""Budgets of `context`, chosen on the half `tune`."""
PAGE = 1500
"""Tokens of a page and of a list of matches."""
DRAWS = 2000
WORD = re.compile(r"\w{3,}")


def squeezed(text: str) -> str:
    return re.sub(r"[\W_]+", "", text).casefold()


def first_tokens(text: str, most: int) -> str:
    """Return the lines that a client with a limit would show."""
    kept: list[str] = []
    for line in text.split("\n"):
        if count_o200k(["\n".join([*kept, line])])[0] > most:
            break
        kept.append(line)
    return "\n".join(kept)


@dataclass
class Corpus:
    folder: Path
    texts: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for path in sorted(self.folder.rglob("*")):
            if path.suffix in (".md", ".rst") and path.name != "SOURCE.md":
                self.texts[path.relative_to(self.folder).as_posix()] = path.read_text(encoding="utf-8")
        self.lines = Counter(squeezed(line) for text in self.texts.values() for line in text.split("\n"))
        self.counts = Counter(word for text in self.texts.values() for word in set(WORD.findall(text.casefold())))

    def rarest(self, question: str) -> list[str]:
        """Return the four rarest words of the question that occur."""
        words = dict.fromkeys(word for word in WORD.findall(question.casefold()) if self.counts[word])
        return sorted(words, key=lambda word: self.counts[word])[:4]

    def likeliest(self, question: str) -> list[str]:
        """Return the documents with the most and rarest words of the question: the order in which a good reader of grep reads."""
        weights = {word: np.log(len(self.texts) / self.counts[word]) for word in self.rarest(question)}
        held = {
            name: sum(w for word, w in weights.items() if word in text.casefold()) for name, text in self.texts.items()
        }
        return sorted((name for name in held if held[name]), key=lambda name: -held[name])

    def named_in(self, text: str) -> list[str]:
        """Return the documents that a result names, in order."""
        places = {name: text.find(name) for name in self.texts}
        return sorted((name for name, at in places.items() if at >= 0), key=lambda name: places[name])

    def page(self, name: str, number: int) -> str:
        """Return a page of a document as a tool `read` would: 100 lines, numbered as agents get them."""
        lines = self.texts[name].split("\n")[100 * number : 100 * (number + 1)]
        return "\n".join(f"{100 * number + i}\t{line}" for i, line in enumerate(lines, 1))


class System:
    """A system with its searches, and with a tool that reads pages of documents."""

    schemas = 0

    def __init__(self, corpus: Corpus) -> None:
        self.corpus = corpus

    async def start(self, stack: AsyncExitStack) -> None: ...

    def new_session(self) -> None: ...

    async def search(self, question: str) -> AsyncIterator[str]:
        raise NotImplementedError
        yield ""

    def order(self, question: str, results: Sequence[str]) -> list[str]:
        """Return the documents to read after the search."""
        return list(dict.fromkeys(name for text in results for name in self.corpus.named_in(text)))

    async def read(self, name: str, page: int) -> str:
        return self.corpus.page(name, page)


class Server(System):
    """An MCP server."""

    def __init__(self, corpus: Corpus, command: Sequence[str], search: str = "", read: str = "") -> None:
        super().__init__(corpus)
        self.command, self.searching, self.reading = list(command), search, read

    async def start(self, stack: AsyncExitStack) -> None:
        parameters = StdioServerParameters(command=self.command[0], args=self.command[1:])
        self.client = await stack.enter_async_context(Client(parameters))
        await self.list_schemas()

    async def list_schemas(self) -> None:
        tools = (await self.client.list_tools()).tools
        listed = [{"name": one.name, "description": one.description, "inputSchema": one.input_schema} for one in tools]
        self.schemas = count_o200k([json.dumps(listed)])[0]

    async def call(self, tool: str, **arguments: object) -> str:
        result = await self.client.call_tool(tool, arguments)
        return "\n".join(getattr(one, "text", "") for one in result.content)

    async def search(self, question: str) -> AsyncIterator[str]:
        tool, _, argument = self.searching.partition(":")
        yield await self.call(tool, **{argument: question})

    async def read(self, name: str, page: int) -> str:
        tool, _, argument = self.reading.partition(":")
        return "" if page else await self.call(tool, **{argument: name})


class Ours(Server):
    """Our server in this process. Each session has its own."""

    def __init__(self, corpus: Corpus, index: mw.Index, budgets: Sequence[int] = BUDGETS) -> None:
        super().__init__(corpus, ())
        self.index, self.budgets = index, budgets
        self.next = ""

    async def start(self, stack: AsyncExitStack) -> None:
        callers = LocalCallers(lambda: self.index, Path("manuals"))
        server = mcp_server(callers, count_o200k, hidden=("collection", "session"))
        self.client = await stack.enter_async_context(Client(server))
        await self.list_schemas()

    async def search(self, question: str) -> AsyncIterator[str]:
        for budget in self.budgets:
            yield await self.call("context", question=question, budget=budget)

    async def read(self, name: str, page: int) -> str:
        self.next = "" if page == 0 else self.next
        place = name if page == 0 else self.next
        text = await self.call("read", place=place, budget=PAGE) if place else ""
        self.next = text.rpartition(" next: ")[2] if " next: " in text.rpartition("\n")[2] else ""
        return text


class OurGrep(Ours):
    def order(self, question: str, results: Sequence[str]) -> list[str]:
        return self.corpus.likeliest(question)

    async def search(self, question: str) -> AsyncIterator[str]:
        yield await self.call("grep", pattern="|".join(self.corpus.rarest(question)) or "^", budget=PAGE)


class Ripgrep(System):
    def __init__(self, corpus: Corpus, program: str) -> None:
        super().__init__(corpus)
        self.program = program

    async def search(self, question: str) -> AsyncIterator[str]:
        words = "|".join(self.corpus.rarest(question)) or "^"
        command = [self.program, "-n", "-i", "-C", "2", "--heading", "--sort", "path", words, "."]
        done = subprocess.run(command, cwd=self.corpus.folder, capture_output=True, text=True)
        yield first_tokens(done.stdout, PAGE)

    def order(self, question: str, results: Sequence[str]) -> list[str]:
        return self.corpus.likeliest(question)


class Qmd(System):
    def __init__(self, corpus: Corpus, command: str) -> None:
        super().__init__(corpus)
        self.command = shlex.split(command)

    async def search(self, question: str) -> AsyncIterator[str]:
        rare = self.corpus.rarest(question)
        for words in (question, *(" ".join(rare[:most]) for most in range(len(rare), 0, -1))):
            done = subprocess.run([*self.command, "search", words, "-n", "5"], capture_output=True, text=True)
            yield done.stdout
            if self.corpus.named_in(done.stdout):
                break


@dataclass
class Asked:
    text: str
    evidence: list[str]
    alternatives: list[list[str]]
    doc: str


@dataclass
class Outcome:
    tokens: int
    found: bool
    repeated: int = 0
    shown: int = 0
    over: int = 0


@dataclass
class Session:
    """What an agent was shown: lines that searches gave, and all text."""

    lines: Counter[str] = field(default_factory=Counter)
    text: str = ""


async def answer(system: System, question: Asked, session: Session) -> Outcome:
    """Play the policy for one question."""
    golds = [question.evidence, *question.alternatives]
    lacking = [{squeezed(line) for text in gold for line in text.split("\n")} - {""} for gold in golds]
    outcome, results, calls = Outcome(0, False), [], 0

    def take(text: str, searched: bool = False) -> bool:
        nonlocal calls
        calls += 1
        results.append(text)
        outcome.tokens += count_o200k([text])[0]
        for line in text.split("\n"):
            key = squeezed(re.sub(r"^\s*\d+[\t:-]", "", line))
            # our own lines name places, which may occur again
            if searched and len(key) >= 20 and not line.startswith("### "):
                outcome.shown += len(key)
                # the same line may stand in several places
                outcome.repeated += len(key) * (session.lines[key] >= max(1, system.corpus.lines[key]))
                session.lines[key] += 1
        session.text += squeezed(re.sub(r"^\s*\d+[\t:-]", "", text, flags=re.MULTILINE)) + "\n"
        for gold in lacking:
            gold -= {line for line in gold if line in session.text}
        outcome.found = any(not gold for gold in lacking)
        return outcome.found

    async for text in system.search(question.text):
        if take(text, searched=True):
            return outcome
    for name in system.order(question.text, results):
        page = 0
        while calls < MOST_CALLS and (text := await system.read(name, page)):
            if take(text):
                return outcome
            page += 1
    return outcome


def interval(values: Sequence[float]) -> str:
    """Return the mean with a 95 % interval by the bootstrap."""
    draws = np.random.default_rng(1).choice(np.array(values, float), (DRAWS, len(values))).mean(axis=1)
    low, high = np.quantile(draws, [0.025, 0.975])
    return f"{np.mean(values):,.0f} ({low:,.0f} to {high:,.0f})"


def questions(half: str) -> list[Asked]:
    path = Path(__file__).parent / "manuals/questions.jsonl"
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [
        Asked(
            row["question"],
            [span["text"] for span in row["evidence"]],
            [[span["text"] for span in one] for one in row.get("alternatives", [])],
            row["evidence"][0]["doc"],
        )
        for row in rows
        if row["half"] == half and row["evidence"]
    ]


async def measure(name: str, system: System, asked: Sequence[Asked], sessions: Sequence[Sequence[Asked]]) -> None:
    single = []
    async with AsyncExitStack() as shared:
        await system.start(shared)
        for one in asked:
            async with AsyncExitStack() as own:
                await fresh(system, own)
                single.append(await answer(system, one, Session()))
        totals, repeated, shown, found = [], 0, 0, 0
        for session in sessions:
            known = Session()
            async with AsyncExitStack() as own:
                await fresh(system, own)
                outcomes = [await answer(system, one, known) for one in session]
            totals.append(system.schemas + sum(one.tokens for one in outcomes))
            repeated += sum(one.repeated for one in outcomes[1:])
            shown += sum(one.shown for one in outcomes[1:])
            found += sum(one.found for one in outcomes)
    tokens = [system.schemas + one.tokens for one in single]
    cells = [name, system.schemas, interval(tokens), f"{np.median(tokens):,.0f}"]
    cells += [f"{sum(one.found for one in single)} of {len(single)}", interval(totals)]
    cells += [f"{found} of {3 * len(sessions)}", f"{100 * repeated / max(1, shown):.0f} %"]
    print("|", " | ".join(map(str, cells)), "|", flush=True)


async def fresh(system: System, stack: AsyncExitStack) -> None:
    """Begin a session: a server that remembers is started again."""
    if isinstance(system, Ours):
        await system.start(stack)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--half", default="report", choices=("tune", "report"))
    parser.add_argument("--rg", default="rg")
    parser.add_argument("--qmd")
    parser.add_argument("--mcp")
    parser.add_argument("--search", default="search:query")
    parser.add_argument("--read", default="read:path")
    parser.add_argument("--only", default="")
    parser.add_argument("--budgets", default=",".join(map(str, BUDGETS)))
    parser.add_argument("--cache", type=Path, default=Path("agents.cache"))
    options = parser.parse_args()
    corpus = Corpus(options.corpus.resolve())
    pool = sorted(questions(options.half), key=lambda one: one.doc)
    asked = [pool[i * len(pool) // QUESTIONS] for i in range(QUESTIONS)]
    sessions = [pool[3 * i : 3 * i + 3] for i in range(min(SESSIONS, len(pool) // 3))]
    place = options.cache / "agents.index"
    if not place.exists():
        with mw.open(place, root=corpus.folder) as index:
            index.add(mw.Document(name, text) for name, text in corpus.texts.items())
    with mw.open(place) as index:
        systems: dict[str, System] = {
            "mergewise": Ours(corpus, index, [int(one) for one in options.budgets.split(",")]),
            "grep and read": OurGrep(corpus, index),
        }
        systems["ripgrep -C 2"] = Ripgrep(corpus, options.rg)
        if options.qmd:
            systems["qmd (BM25)"] = Qmd(corpus, options.qmd)
        if options.mcp:
            systems = {options.mcp: Server(corpus, shlex.split(options.mcp), options.search, options.read)}
        print(
            "| system | schemas | tokens of a question | median | found | tokens of a session of three | found | repeats |"
        )
        print("| --- | --- | --- | --- | --- | --- | --- | --- |")
        for name, system in systems.items():
            if options.only in name:
                asyncio.run(measure(name, system, asked, sessions))


if __name__ == "__main__":
    main()
