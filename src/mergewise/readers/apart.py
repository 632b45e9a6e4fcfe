"""Files read in a process apart, within limits: a parser that crashes, loops or swallows memory fails its file alone.

The process is a fresh interpreter (`python -m mergewise.readers.apart`), never a fork. It reads one file after another; after its
death the next file gets another process. Requests and answers are JSON, a line each: a parser that was taken over can hand
nothing but a document to the caller. Text formats, whose readers are our own or Python's, are read in the caller's process.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from threading import Event, Lock, Timer
from typing import IO, Annotated, Any

from mergewise.errors import ReadError
from mergewise.ranges import SECONDS, Range, check_fields
from mergewise.readers import FileReader, read
from mergewise.types import Document, FileMetadata, Heading, Page

APART = frozenset({".docx", ".epub", ".odt", ".pdf", ".pptx", ".xlsx"})
"""The suffixes of files that are read apart: their formats need parsers of others, native code or archives."""

_READ = "mergewise.readers:read"
_STOP_SECONDS = 2.0
_MB = 1_000_000


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of the reading of one file. Memory is that of the whole process; Windows does not limit it."""

    seconds: Annotated[float, SECONDS, "time for one file"] = 120.0
    memory_mb: Annotated[int, Range(100, 1_000_000), "address space of the process, in megabytes"] = 4000

    def __post_init__(self) -> None:
        check_fields(self)


@contextmanager
def reader_within(limits: Limits | None) -> Iterator[FileReader]:
    """`read`, or one that reads files of others' formats apart, within limits."""
    if limits is None:
        yield read
        return
    apart = ReaderApart(limits)
    try:
        yield lambda path, *, id=None: (apart.read if path.suffix.lower() in APART else read)(path, id=id)
    finally:
        apart.close()


class ReaderApart:
    """Reads files in one process apart, which is started when it is needed. Safe to use from several threads."""

    def __init__(self, limits: Limits, function: str = _READ) -> None:
        self._limits = limits
        self._function = function
        self._lock = Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def read(self, path: Path, *, id: str | None = None) -> Document:
        """The document, as `mergewise.readers.read` gives it. Raises ReadError, also where the process ends or takes too long."""
        with self._lock:
            process = self._process = self._process or self._start()
            late = Event()

            def end_late() -> None:
                late.set()
                process.kill()

            timer = Timer(self._limits.seconds, end_late)
            timer.daemon = True
            timer.start()
            try:
                answer = _ask(process, [str(path), id])
            finally:
                timer.cancel()
                if late.is_set():
                    self._stop()
            if answer is None:
                raise ReadError(self._end(process, late.is_set()))
        if "failed" in answer:
            raise ReadError(str(answer["failed"]))
        return _document(answer)

    def close(self) -> None:
        with self._lock:
            self._stop()

    def _start(self) -> subprocess.Popen[bytes]:
        # the modules of this process, but none that lies about in the working directory (-P)
        module_path = os.pathsep.join(entry for entry in sys.path if entry)
        limits = json.dumps(asdict(self._limits))
        return subprocess.Popen(
            [sys.executable, "-P", "-m", __name__, self._function, limits],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": module_path},
        )

    def _end(self, process: subprocess.Popen[bytes], late: bool) -> str:
        """Why there was no answer. The process is gone after this."""
        self._process = None
        if late:
            return f"reading it took more than {self._limits.seconds:g} seconds"
        code = _exit_code(process)
        if code is None:
            return "its parser closed the process that read it"
        if code >= 0:
            return f"its parser ended the process that read it (exit {code})"
        with suppress(ValueError):
            return f"its parser was killed by {signal.Signals(-code).name}"
        return f"its parser was killed by signal {-code}"

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            _exit_code(process)


def _ask(process: subprocess.Popen[bytes], request: list[str | None]) -> dict[str, Any] | None:
    """The answer of the process; None if it gives none."""
    assert process.stdin is not None and process.stdout is not None
    try:
        process.stdin.write(json.dumps(request).encode() + b"\n")
        process.stdin.flush()
        answer = json.loads(process.stdout.readline())
    except (OSError, ValueError):
        return None
    return answer if isinstance(answer, dict) else None


def _exit_code(process: subprocess.Popen[bytes]) -> int | None:
    """The exit code of the process, which ends when there is nothing more to read; None where it has to be killed."""
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()
    try:
        return process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return None


def _document(answer: dict[str, Any]) -> Document:
    try:
        id, text, title, metadata, outline, pages, units = answer["document"]
        return Document(
            id,
            text,
            title,
            FileMetadata(metadata) if answer["of_file"] else metadata,
            None if outline is None else tuple(Heading(*heading) for heading in outline),
            tuple(Page(*page) for page in pages),
            tuple((start, end) for start, end in units),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ReadError(f"its parser answered with no document ({type(error).__name__})") from error


# --- within the process ------------------------------------------------------------------------------------------


def serve(function: str, limits: Limits, requests: IO[bytes], answers: IO[bytes]) -> None:
    """Read file after file, until there are no more requests."""
    module, _, name = function.partition(":")
    reader = getattr(importlib.import_module(module), name)
    for line in requests:
        path, doc_id = json.loads(line)
        _limit(limits)
        answer = _answer(reader, Path(path), doc_id, limits)
        answers.write(json.dumps(answer, default=_field_values).encode() + b"\n")
        answers.flush()


def _answer(reader: FileReader, path: Path, doc_id: str | None, limits: Limits) -> dict[str, Any]:
    try:
        document = reader(path, id=doc_id)
    except (ReadError, MemoryError) as error:
        if isinstance(error, ReadError) and not isinstance(error.__cause__, MemoryError):
            return {"failed": error.message}
        return {"failed": f"reading it took more than {limits.memory_mb} MB"}
    return {"document": document, "of_file": isinstance(document.metadata, FileMetadata)}


def _field_values(record: Any) -> list[Any]:
    return [getattr(record, field.name) for field in fields(record)]


def _limit(limits: Limits) -> None:
    """Set bounds that hold even when nobody is left to end the process."""
    try:
        import resource
    except ImportError:  # Windows
        return
    spent = resource.getrusage(resource.RUSAGE_SELF)
    until = int(spent.ru_utime + spent.ru_stime + limits.seconds) + 2
    for kind, most in ((resource.RLIMIT_AS, limits.memory_mb * _MB), (resource.RLIMIT_CPU, until)):
        _, hard = resource.getrlimit(kind)
        with suppress(ValueError, OSError):
            resource.setrlimit(kind, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def main() -> None:
    """Serve requests from standard input. What parsers print goes nowhere; answers go to the original standard output."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    with suppress(KeyboardInterrupt, BrokenPipeError):
        serve(sys.argv[1], Limits(**json.loads(sys.argv[2])), sys.stdin.buffer, answers)


if __name__ == "__main__":
    main()
