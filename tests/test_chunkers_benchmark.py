"""Keys of the benchmark of searches over keys and chunks."""

from benchmarks import chunkers


def test_paper_shaped_keys_are_beginnings_of_segments() -> None:
    assert (
        chunkers._beginning("The cats of Rome sleep. " * 9, 5) == "The cats of Rome sleep."[: len("The cats of Rome")]
    )
