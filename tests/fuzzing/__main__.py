"""Fuzzes every target in turn, guided by coverage: `python -m tests.fuzzing --minutes 60`. Needs the package atheris.

Each target runs in a process of its own. What makes one fail, or takes too long or too much memory, stays in the folder, as
`TARGET/crash-...` or `TARGET/timeout-...`, and is told at the end; what was found on the way (the corpus) stays too, so that the
next run goes on from there.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
SECONDS = 20
"""An input that takes longer is a failure: inputs have 4 KB."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.fuzzing", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60, help="all targets together")
    parser.add_argument("--target", action="append", help="only these")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=ROOT / ".fuzzing", help="the corpus, and what failed")
    parser.add_argument("--within", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.within:
        return within(options.within, options.out, options.seed, round(60 * options.minutes))
    from tests.fuzzing.targets import targets

    names = options.target or list(targets())
    failed = [name for name in names if not drive(name, options, 60 * options.minutes / len(names))]
    print(f"{len(names) - len(failed)} of {len(names)} targets held", *failed, sep="\n  failed: ")
    return 1 if failed else 0


def drive(name: str, options: argparse.Namespace, seconds: float) -> bool:
    """Whether the target holds, fuzzed in a process of its own."""
    began = time.monotonic()
    given = {"within": name, "minutes": seconds / 60, "seed": options.seed, "out": options.out}
    command = [sys.executable, "-m", "tests.fuzzing", *(f"--{option}={value}" for option, value in given.items())]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, errors="replace")
    folder = options.out / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "log").write_text(done.stdout + done.stderr, encoding="utf-8")
    told = [line for line in done.stderr.splitlines() if re.match(r"#\d", line)][-1:]
    ended = "held" if done.returncode == 0 else "FAILED"
    print(f"{name}: {ended} in {time.monotonic() - began:.0f} s; {''.join(told)}", flush=True)
    return done.returncode == 0


def within(name: str, out: Path, seed: int, seconds: int) -> int:
    import atheris

    with atheris.instrument_imports(include=["mergewise", "email", "markdown_it", "docutils"]):
        from tests.fuzzing.targets import targets

        target = targets()[name]
        for data in target.seeds:
            # what a target imports at its first use is imported here, so that its branches count too
            target.run(data)
    corpus = out / name / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(target.seeds):
        (corpus / f"seed-{number}").write_bytes(data)
    limits = [
        f"-max_total_time={seconds}",
        f"-timeout={SECONDS}",
        *"-rss_limit_mb=4000 -max_len=4096 -len_control=20".split(),
    ]
    atheris.Setup([name, *limits, f"-seed={seed}", f"-artifact_prefix={out / name}/", str(corpus)], target.run)
    atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
