"""Fuzz every target in turn, guided by coverage: `python -m tests.fuzzing --minutes 60`. Needs the package atheris.

Each target runs in a separate process. Inputs that fail, time out or use too much memory are stored in the output folder as
`TARGET/crash-...` or `TARGET/timeout-...` and reported at the end. The corpus is stored too, so the next run continues from it.
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
"""Timeout of one input (inputs have at most 4 KB)."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.fuzzing", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60, help="Minutes for all targets together")
    parser.add_argument("--target", action="append", help="Target to fuzz (repeatable; default: all)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=ROOT / ".fuzzing", help="Folder of the corpus and the failures")
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
    """Fuzz a target in a separate process. Return True if it held."""
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
            # Run the seeds here, so that branches in lazily imported modules count too.
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
