"""The benchmark of searches over keys and chunks: the keys that it makes."""

from benchmarks import chunkers


def test_keys_of_the_papers_shape_are_the_beginnings_of_segments() -> None:
    assert (
        chunkers._beginning("The cats of Rome sleep. " * 9, 5) == "The cats of Rome sleep."[: len("The cats of Rome")]
    )
