"""The mutation run: draw the sample, collect the map, run the tests, print the report. Resumes an interrupted run."""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks.mutants import forks, reached, report
from benchmarks.mutants.guess import likeliest
from benchmarks.mutants.sample import Mutant, absent, chosen, mutants
from benchmarks.mutants.trial import Plan, Slot, Verdict, guessed, planned

ROOT = Path(__file__).parents[2]
Plans = Callable[[Mutant], Plan]
# Factor on the time limit of a mutant that ran out of wall-clock time and runs again, alone.
PATIENCE = 4.0


def main() -> int:
    options = arguments()
    forks.preload()
    until = time.monotonic() + 60 * options.minutes
    every = mutants(ROOT)
    sample = chosen(every, options.count, options.seed)
    for path in sorted(absent()):
        print(f"skipped, package not installed: {path}")
    slots = [Slot(forks.copy_tree(ROOT, options.work / f"copy-{n}" / "tree")) for n in range(options.workers)]
    if not options.guess:
        collect_map(slots, options, until)
    plans = planner(slots[0].tree, options)
    kept = options.work / f"seed-{options.seed}{'-guessed' if options.guess else ''}.jsonl"
    judge(slots, unjudged(sample, kept, options), plans, kept, until)
    false = control(slots[0], sample, plans, options.controls)
    return print_report(sample, every, kept, false)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.mutants", description=__doc__)
    parser.add_argument("--count", type=int, default=220, help="Mutants in the sample")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2, help="Parallel processes, each with a copy of the sources")
    parser.add_argument("--minutes", type=float, default=80, help="Time limit; the next run resumes")
    parser.add_argument("--allowance", type=float, default=40, help="Seconds of tests per mutant")
    parser.add_argument("--file-seconds", type=float, default=60, help="CPU seconds per test file in the map")
    parser.add_argument("--test-seconds", type=float, default=20, help="CPU seconds per test in the map")
    parser.add_argument("--again", action="store_true", help="Run survivors without a reason again")
    parser.add_argument("--room", action="append", help="Room to test (repeatable)")
    parser.add_argument("--tests", action="append", default=[], help="Path of tests for the map (repeatable)")
    parser.add_argument("--guess", type=int, help="Number of test files chosen by name and import, without a map")
    parser.add_argument("--controls", type=int, default=5, help="Runs without a change, which must pass")
    parser.add_argument("--work", type=Path, default=ROOT / ".mutants")
    return parser.parse_args()


def collect_map(slots: list[Slot], options: argparse.Namespace, until: float) -> None:
    """Update the map, one process per test file. Files not reached in time are left to the next run."""
    tree, folder = slots[0].tree, options.work / "reached"
    files = reached.stale(tree, folder, reached.test_files(tree, options.tests))
    running: dict[str, forks.Fork] = {}
    while files or running:
        busy = {run.tree for run in running.values()}
        for slot in slots:
            if files and slot.tree not in busy and time.monotonic() < until:
                file, at = files.pop(0), slot.tree
                print(f"map: {file}", flush=True)
                limits = options.file_seconds, options.test_seconds
                running[file] = forks.fork(at, partial(reached.collect, at, folder, file, *limits), 1200, 600)
        running = {file: run for file, run in running.items() if not run.ended()}
        if time.monotonic() > until:
            files = []
        time.sleep(0.05)


def unjudged(sample: list[Mutant], kept: Path, options: argparse.Namespace) -> list[Mutant]:
    """Return the mutants of the sample without a verdict, or with `--again` the survivors without a reason."""
    done = report.results(kept)
    judged = report.reasons()
    rooms = options.room or [mutant.room for mutant in sample]
    if options.again:
        left = [m for m in sample if done.get(m.name, {}).get("verdict") == "survived" and m.name not in judged]
    else:
        left = [m for m in sample if done.get(m.name, {}).get("verdict") not in ("caught", "survived")]
    left = [mutant for mutant in left if mutant.room in rooms]
    # Shuffle, so that an interrupted run covers all rooms.
    random.Random(options.seed).shuffle(left)
    return left


def judge(slots: list[Slot], waiting: list[Mutant], plans: Plans, kept: Path, until: float) -> None:
    """Run the mutants on all slots. Mutants out of wall-clock time run again at the end, one at a time."""
    waiting, alone = list(waiting), []
    while waiting or any(slot.mutant for slot in slots):
        for slot in slots:
            mutant = slot.mutant
            verdict = slot.verdict() if mutant else None
            if mutant and verdict:
                if verdict.by == "wall-clock time":
                    alone.append(mutant)
                record(kept, mutant, verdict)
            if not slot.mutant and waiting and time.monotonic() < until:
                start(slot, waiting.pop(0), plans, kept)
        if time.monotonic() > until:
            waiting = []
        time.sleep(0.1)
    for mutant in alone:
        if time.monotonic() < until:
            slots[0].start(mutant, plans(mutant), PATIENCE)
            record(kept, mutant, wait_for_verdict(slots[0]))


def start(slot: Slot, mutant: Mutant, plans: Plans, kept: Path) -> None:
    """Fork the run of a mutant. A mutant without tests has survived."""
    plan = plans(mutant)
    if plan.batches:
        slot.start(mutant, plan)
    else:
        record(kept, mutant, Verdict("survived", "no test calls it", 0, 0.0))


def planner(tree: Path, options: argparse.Namespace) -> Plans:
    """Return a function from a mutant to its tests: by the map, or by names and imports with `--guess`."""
    if options.guess:
        files = reached.test_files(tree, options.tests)

        def guess(mutant: Mutant) -> Plan:
            nearest = likeliest(tree, mutant.path, mutant.change.function, files, options.guess)
            return guessed(nearest, options.allowance, options.test_seconds)

        return guess
    known = reached.Reached(options.work / "reached")
    return lambda mutant: planned(known.concerned(mutant.path, mutant.change.function), options.allowance)


def wait_for_verdict(slot: Slot) -> Verdict:
    while (verdict := slot.verdict()) is None:
        time.sleep(0.05)
    return verdict


def record(kept: Path, mutant: Mutant, verdict: Verdict) -> None:
    print(f"    {verdict.verdict} by {verdict.by or verdict.tests} in {verdict.cpu:.1f} s: {mutant.name}", flush=True)
    place = {"name": mutant.name, "room": mutant.room, "kind": mutant.change.kind, "line": mutant.change.line}
    report.keep(kept, place | vars(verdict))


def control(slot: Slot, sample: list[Mutant], plans: Plans, runs: int) -> list[str]:
    """Run the tests of some mutants without the change, and return the failures."""
    false = []
    for mutant in sample[:: max(1, len(sample) // max(1, runs))][:runs]:
        if (plan := plans(mutant)).batches:
            slot.start(mutant, plan, changed=False)
            if (verdict := wait_for_verdict(slot)).verdict == "caught":
                false.append(f"{verdict.by} fails without a change")
    return false


def print_report(sample: list[Mutant], every: list[Mutant], kept: Path, false: list[str]) -> int:
    """Print the tables. Return 0 if the sample is finished, enough mutants are caught, and no control failed."""
    done = report.results(kept)
    found = [done[mutant.name] for mutant in sample if mutant.name in done]
    for column in ("room", "kind"):
        print("\n".join(["", *report.table(found, column)]))
    print("\nSurvivors:", *report.survivors(found), sep="\n")
    for name in report.gone(every):
        print(f"survivor no longer in the sources: {name}")
    for line in false:
        print(line)
    caught = report.share(found)
    print(f"\n{len(found)} of {len(sample)} mutants judged, {caught:.3f} caught (at least {report.LEAST_SHARE})")
    return int(caught < report.LEAST_SHARE or len(found) < len(sample) or bool(false))


if __name__ == "__main__":
    sys.exit(main())
