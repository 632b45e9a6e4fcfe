"""Read files in a separate process, within limits, so that a crashing, looping or memory-hungry parser fails only its own file.

The process is a fresh interpreter (`python -m mergewise.readers.sandbox`), never a fork. It reads one file after another. If it
dies, the next file gets a new process. Requests and answers are JSON lines, so that a compromised parser can return nothing but a
document.

Small text files are read in the caller's process, which is faster. Their readers take bounded time and memory on small files, but
not on large ones.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, fields
from functools import cache, partial
from logging.handlers import QueueHandler
from pathlib import Path, PurePosixPath
from queue import SimpleQueue
from threading import Event, Lock, Thread, Timer
from time import monotonic
from typing import IO, Annotated, Any

from mergewise.defaults import FILE_SECONDS
from mergewise.errors import ReadError
from mergewise.lazy import of_process
from mergewise.log import log
from mergewise.ranges import SECONDS, Range, check_fields
from mergewise.readers import FORMATS, FileReader, ReadFile, read_file
from mergewise.readers.recognition import THREADS, Recognition, check_recognition
from mergewise.types import Document, FileMetadata, Heading, JsonDict, Page, frozen

LARGE = 200_000
"""Size in bytes above which files of all formats are read in the sandbox."""


@cache
def sandboxed_suffixes() -> set[str]:
    """Return the suffixes of files that are read in the sandbox: they need third-party parsers, native code or archives."""
    own = set(".docx .epub .odt .pdf .pptx .xlsm .xlsx".split()) - FORMATS.keys()
    return own | {suffix for suffix, one in FORMATS.items() if one.sandboxed}


_READ = "mergewise.readers:read_file"
_STOP_SECONDS = 2.0
_MB = 1_000_000
# Bytes of an answer. It is larger than any readable document.
_MAX_ANSWER = 1_000 * _MB
# Variables that Python, native libraries and Windows need. A parser of files from others gets no other ones, such as keys.
_PASSED_ON = re.compile(
    r"PATH|HOME|LANG|LANGUAGE|LC_\w+|TZ|TMPDIR|TEMP|TMP|VIRTUAL_ENV|PYTHON[A-Z]+|COVERAGE_PROCESS_\w+|\w+_NUM_THREADS|"
    r"(?:DY)?LD_\w+|SYSTEMROOT|SYSTEMDRIVE|WINDIR|COMSPEC|PATHEXT|USERPROFILE|APPDATA|LOCALAPPDATA|PROGRAMDATA"
)
_READY = b"ready\n"
# Unreadable files may waste the time limit this often. After that, each file gets this share of it.
_PATIENCE, _SHARE = 3, 1 / 24


@frozen
class Limits:
    """Limits for reading one file. The memory limit is that of the whole process; Windows has none.

    Files that crash the process or exceed its limits waste time. Once they have wasted three times `seconds` in all, each further
    file gets a twenty-fourth of `seconds`, so that a folder of such files does not take hours.
    """

    seconds: Annotated[float, SECONDS, "time limit of one file"] = FILE_SECONDS
    memory_mb: Annotated[int, Range(100, 1_000_000), "address space of the process, in megabytes"] = 4000
    ocr_pages: Annotated[int, Range(0, 10_000), "PDF pages without text to recognise, as time allows"] = 0

    def __post_init__(self) -> None:
        check_fields(self)


@contextmanager
def reader_within(limits: Limits | None) -> Iterator[FileReader]:
    """Yield `read_file`, or with limits, a reader that reads large files and risky formats in a sandbox."""
    if limits is None:
        yield read_file
        return
    if limits.ocr_pages:
        check_recognition()
    with closing(SandboxedReader(limits)) as reader:
        yield reader


class SandboxedReader:
    """A `FileReader` that reads large files and risky formats in one separate process.

    The process starts at its first use. Safe to use from several threads. A pickled reader gets a process of its own.
    """

    def __init__(self, limits: Limits, function: str = _READ) -> None:
        self.limits = limits
        self._function = function
        self._lock = Lock()
        self._process: subprocess.Popen[bytes] | None = None
        # seconds wasted by unreadable files
        self._lost = 0.0

    def __call__(
        self, path: Path, *, id: str | None = None, name: str | None = None, within: Path | None = None
    ) -> ReadFile:
        suffix = path.suffix if name is None else PurePosixPath(name).suffix
        read = self.read if suffix.lower() in sandboxed_suffixes() else read_file
        # the reader reports why the file has no size
        with suppress(OSError, ValueError):
            read = self.read if path.stat().st_size > LARGE else read
        return read(path, id=id, name=name, within=within)

    def __reduce__(self) -> tuple[Any, ...]:
        return of_process, (SandboxedReader, self.limits)

    def read(self, path: Path, **options: str | Path | None) -> ReadFile:
        """Read a file of any size in the separate process, with the options of `read_file`.

        Raises ReadError, also if the process dies or exceeds its time.
        """
        with self._lock:
            process = self._process = self._process or self._start()
            late = Event()
            seconds = self._seconds()

            def end_late() -> None:
                late.set()
                process.kill()

            timer = Timer(seconds, end_late)
            timer.daemon = True
            began = monotonic()
            timer.start()
            try:
                given = {name: str(value) for name, value in options.items() if value is not None}
                answer = _ask(process, [str(path), seconds, given])
            finally:
                timer.cancel()
                if late.is_set():
                    self._stop()
            if answer is None or answer.get("exhausted"):
                self._count_lost(monotonic() - began)
            if answer is None:
                raise ReadError(self._end(process, seconds if late.is_set() else None))
        for message in answer.get("logged", ()):
            log.warning("%s", message)
        if "failed" in answer:
            raise ReadError(str(answer["failed"]))
        return _read_file(answer)

    def _seconds(self) -> float:
        """Return the time limit of the next file."""
        return self.limits.seconds * (_SHARE if self._lost >= _PATIENCE * self.limits.seconds else 1)

    def _count_lost(self, seconds: float) -> None:
        before = self._seconds()
        self._lost += seconds
        if (after := self._seconds()) < before:
            log.warning(
                "unreadable files took %.0f s: time limit of further files reduced to %.3g s", self._lost, after
            )

    def close(self) -> None:
        with self._lock:
            self._stop()

    def _start(self) -> subprocess.Popen[bytes]:
        arguments = self._function, json.dumps(asdict(self.limits))
        process = start_sandbox(__name__, *arguments, stderr=subprocess.DEVNULL, environment=passed_environment())
        # starting must not count as a file's time
        assert process.stdout is not None
        process.stdout.readline(len(_READY))
        return process

    def _end(self, process: subprocess.Popen[bytes], late: float | None) -> str:
        """End the process and return the reason of a missing answer. `late` is the exceeded time limit, or None."""
        self._process = None
        if late is not None:
            why = "" if late == self.limits.seconds else ", after other files wasted the time: read it alone"
            return f"reading took more than {late:.3g} s{why}"
        code = _exit_code(process)
        if code is None:
            return "its parser closed the connection to the reading process"
        if code >= 0:
            return f"its parser ended the reading process ({ending_of(code)})"
        return f"its parser was {ending_of(code)}"

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            _exit_code(process)


def passed_environment() -> dict[str, str]:
    """Return the variables that a parser of files from others gets: those that native libraries need, and no keys."""
    return {name: value for name, value in os.environ.items() if _PASSED_ON.fullmatch(name.upper())}


def start_sandbox(
    module: str, *arguments: str, stderr: int | None, environment: Mapping[str, str], own_group: bool = False
) -> subprocess.Popen[bytes]:
    """Start a fresh interpreter with a module of this package. It imports nothing from the working directory (-P).

    It has the variables of `environment` alone.
    """
    return subprocess.Popen(
        [sys.executable, "-P", "-m", module, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
        env={**environment, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)},
        process_group=0 if own_group else None,
    )


def ending_of(code: int) -> str:
    """Describe how a process with this exit code ended."""
    if code >= 0:
        return f"exit {code}"
    with suppress(ValueError):
        return f"killed by {signal.Signals(-code).name}"
    return f"killed by signal {-code}"


def _ask(process: subprocess.Popen[bytes], request: list[Any]) -> JsonDict | None:
    """Return the answer of the process, or None without one."""
    assert process.stdin is not None and process.stdout is not None
    try:
        process.stdin.write(json.dumps(request).encode() + b"\n")
        process.stdin.flush()
        answer = json.loads(process.stdout.readline(_MAX_ANSWER))
    except (OSError, ValueError):
        return None
    return answer if isinstance(answer, dict) else None


def _exit_code(process: subprocess.Popen[bytes]) -> int | None:
    """Wait for the process, which ends when its input ends. Return its exit code, or None if it had to be killed."""
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


def _read_file(answer: JsonDict) -> ReadFile:
    try:
        id, text, title, metadata, outline, pages, units = answer["document"]
        document = Document(
            id,
            text,
            title,
            FileMetadata(metadata) if answer["of_file"] else metadata,
            None if outline is None else tuple(Heading(*heading) for heading in outline),
            tuple(Page(*page) for page in pages),
            tuple((start, end, *kind) for start, end, *kind in units),
        )
        return ReadFile(document, str(answer["digest"]), tuple(int(page) for page in answer["textless"]))
    except (KeyError, TypeError, ValueError) as error:
        raise ReadError(f"its parser returned no document ({type(error).__name__})") from error


# --- within the process ------------------------------------------------------------------------------------------


def serve(function: str, limits: Limits, requests: Iterable[bytes], answers: IO[bytes]) -> None:
    """Read file after file until the requests end."""
    module, _, name = function.partition(":")
    reader = getattr(importlib.import_module(module), name)

    def field_values(record: Any) -> list[Any]:
        return [getattr(record, field.name) for field in fields(record)]

    logged = SimpleQueue[logging.LogRecord]()
    log.addHandler(QueueHandler(logged))
    answers.write(_READY)
    answers.flush()
    for line in requests:
        path, seconds, options = json.loads(line)
        limit_process(limits.memory_mb, seconds * (THREADS if limits.ocr_pages else 1))
        options |= {"recognition": Recognition(limits.ocr_pages, seconds)} if limits.ocr_pages else {}
        options |= {"within": Path(options["within"])} if "within" in options else {}
        answer = _answer(partial(reader, Path(path), **options), limits)
        answer["logged"] = [logged.get().getMessage() for _ in range(logged.qsize())]
        text = json.dumps(answer, default=field_values, ensure_ascii=False)
        answers.write(text.encode("utf-8", "surrogatepass") + b"\n")
        answers.flush()


def _answer(read: Callable[[], ReadFile], limits: Limits) -> JsonDict:
    try:
        document, digest, textless = read()
    except (ReadError, MemoryError) as error:
        if isinstance(error, ReadError) and not isinstance(error.__cause__, MemoryError):
            return {"failed": error.message}
        return {"failed": f"reading took more than {limits.memory_mb} MB", "exhausted": True}
    of_file = isinstance(document.metadata, FileMetadata)
    return {"document": document, "digest": digest, "of_file": of_file, "textless": textless}


def limit_process(memory_mb: int, seconds: float) -> None:
    """Limit the process itself, in case its parent no longer can."""
    try:
        import resource
    except ImportError:  # Windows
        return
    spent = resource.getrusage(resource.RUSAGE_SELF)
    until = int(spent.ru_utime + spent.ru_stime + seconds) + 2
    for kind, most in ((resource.RLIMIT_AS, memory_mb * _MB), (resource.RLIMIT_CPU, until)):
        _, hard = resource.getrlimit(kind)
        with suppress(ValueError, OSError):
            resource.setrlimit(kind, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def main() -> None:
    """Serve requests from standard input. Answers go to the original standard output. Output of parsers is dropped."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    requests: SimpleQueue[bytes] = SimpleQueue()
    Thread(target=_receive, args=(requests,), daemon=True).start()
    with suppress(KeyboardInterrupt, BrokenPipeError):
        serve(sys.argv[1], Limits(**json.loads(sys.argv[2])), iter(requests.get, None), answers)


def _receive(requests: SimpleQueue[bytes]) -> None:
    """Queue the requests. At their end the parent has ended: end at once, even in the middle of a file."""
    # a file of its own, because Python closes `sys.stdin` at its end, which must not wait for this thread
    with open(0, "rb", closefd=False) as stream:
        for line in stream:
            requests.put(line)
        os._exit(0)


if __name__ == "__main__":
    main()
