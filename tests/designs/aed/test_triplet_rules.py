"""Triplets by rules: English sentences, brackets, tables, lists, other languages, and text without triplets."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mergewise.designs.aed.triplets.rules import triplets_by_rules
from mergewise.types import Document
from tests.conftest import examples
from tests.support import rows_of


def triples_in(text: str, title: str = "Ada Brix") -> list[tuple[str, str, str]]:
    (rows,) = rows_of([Document("d", text, title)])
    return [triplet[:3] for triplet in triplets_by_rules(text, title, rows["leaf"])]


@pytest.mark.parametrize(
    ("text", "title", "expected"),
    [
        (
            "Red Mill is a 1938 French drama film written and directed by Jean Vidal and starring Ann Lee, Bo Stern and Cy Ross.",
            "Red Mill (film)",
            [
                ("Red Mill", "is a", "1938 French drama film"),
                ("Red Mill", "year", "1938"),
                ("Red Mill", "country of origin", "French"),
                ("Red Mill", "written by", "Jean Vidal"),
                ("Red Mill", "directed by", "Jean Vidal"),
                ("Red Mill", "starring", "Ann Lee"),
                ("Red Mill", "starring", "Bo Stern"),
                ("Red Mill", "starring", "Cy Ross"),
            ],
        ),
        (
            "Ada Maria Brix (3 May 1901 in Delft, Holland – 9 June 1980) was a Dutch engineer.",
            "Ada Brix",
            [
                ("Ada Brix", "born on", "3 May 1901"),
                ("Ada Brix", "born in", "Delft, Holland"),
                ("Ada Brix", "died on", "9 June 1980"),
                ("Ada Brix", "nationality", "Dutch"),
            ],
        ),
        ("She was born in Delft. She died on 3 March 1972 in Beverly Hills, California.", "Ada Brix", [
            ("Ada Brix", "born in", "Delft"),
            ("Ada Brix", "died on", "3 March 1972"),
            ("Ada Brix", "died in", "Beverly Hills, California"),
        ]),
        ("He was the father of actress Lilla Brix and younger brother of actress Mercedes Holm.", "Guido Brix", [
            ("Guido Brix", "father of", "Lilla Brix"),
            ("Guido Brix", "brother of", "Mercedes Holm"),
        ]),
        ("She was the daughter of Ernst I, Duke of Saxony and Maria Holm.", "Anna", [
            ("Anna", "daughter of", "Ernst I, Duke of Saxony"),
            ("Anna", "daughter of", "Maria Holm"),
        ]),
        ("Yara is a song by the Welsh country music singer Bo Stern. The song was released on 5 May 1990.", "Yara", [
            ("Yara", "song by", "Bo Stern"),
            ("Yara", "released on", "5 May 1990"),
        ]),
        ("Arden is a village in Brook District, in the Central District of Corin County, Norden.", "Arden", [
            ("Arden", "village in", "Brook District"),
            ("Arden", "village in", "Central District of Corin County, Norden"),
        ]),
        ("Yara is a 1990 French-language film by Bo Stern.", "Yara", [
            ("Yara", "is a", "1990 French-language film"),
            ("Yara", "year", "1990"),
            ("Yara", "language", "French"),
            ("Yara", "film by", "Bo Stern"),
        ]),
        ("Arden has a mill. Its population was 258 in 1990.", "Arden", [("Arden", "population", "258")]),
        ("Ida Holm founded Norrby Works in 1908.", "Works", [
            ("Ida Holm", "founded", "Norrby Works"),
            ("Ida Holm", "founded Norrby Works in", "1908"),
        ]),
        ("Ian Keith, an English actor, was seen in Delft.", "Delft", [("Ian Keith", "is a", "English actor")]),
        ("His father was Ian Keith. Her husband, Bo Stern, wrote.", "Ada Brix", [
            ("Ada Brix", "father", "Ian Keith"),
            ("Ada Brix", "husband", "Bo Stern"),
        ]),
    ],
)  # fmt: skip
def test_sentences_give_triplets(text: str, title: str, expected: list[tuple[str, str, str]]) -> None:
    made = triples_in(text, title)
    assert [one for one in expected if one not in made] == [], made


@pytest.mark.parametrize("text", ["Ada Brix wrote no Book of Kells.", "Ada Brix taught that Rome fell."])
def test_negated_verbs_and_verbs_with_a_clause_have_no_object(text: str) -> None:
    assert triples_in(text) == []


def test_prepositions_inside_a_name_are_ignored() -> None:
    assert triples_in("She built the Tower of London in 1911.") == [
        ("Ada Brix", "built", "Tower of London"),
        ("Ada Brix", "built Tower of London in", "1911"),
    ]


def test_subject_is_the_name_in_the_sentence() -> None:
    text = "The tower of Arden was built by Ida Holm. Bo Stern, who was born in Rome, lived there."
    made = triples_in(text, "Arden")
    assert ("The tower of Arden", "built by", "Ida Holm") in made
    assert ("Bo Stern", "born in", "Rome") in made
    assert not any(head == "Arden" for head, _, _ in made)


def test_negated_participles_and_those_of_other_nouns_are_skipped() -> None:
    made = triples_in(
        "Red Mill was the first film not written by Bo Stern. It was halted by the debts faced by Norrby Works.",
        "Red Mill",
    )
    assert not any(relation in ("written by", "faced by") for _, relation, _ in made)


def test_keys_values_and_tables() -> None:
    made = triples_in(
        "# Options\n\n- retry_limit: how often a job starts again\n- **depth**: 9\n\n| Name | Default | Unit |\n|---|---|---|\n"
        "| size | 5 | MB |\n| width | | cm |\n",
        "manual.md",
    )
    assert ("Options", "retry_limit", "how often a job starts again") in made and ("Options", "depth", "9") in made
    assert {("size", "Default", "5"), ("size", "Unit", "MB"), ("width", "Unit", "cm")} <= set(made)
    assert not any("---" in part for one in made for part in one)


GERMAN = "Ada Brix (* 5. Oktober 1901 in Wien; † 3. Mai 1980 in Graz) war eine österreichische Malerin."


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (GERMAN, ("Ada Brix", "born on", "5. Oktober 1901")),
        (GERMAN, ("Ada Brix", "died in", "Graz")),
        ("Ada Brix war eine österreichische Malerin.", ("Ada Brix", "war", "eine österreichische Malerin")),
        ("Ada Brix est une peintre française, née à Lyon.", ("Ada Brix", "est", "une peintre française")),
        ("Ada Brix fue una pintora española.", ("Ada Brix", "fue", "una pintora española")),
        ("北京是中国的首都，人口很多。", ("北京", "是", "中国的首都")),
        ("富士山は日本の山である。", ("富士山", "は", "日本の山")),
        ("Москва — столица России, город.", ("Москва", "это", "столица России")),
    ],
)  # fmt: skip
def test_other_languages(text: str, expected: tuple[str, str, str]) -> None:
    assert expected in triples_in(text)


def test_passage_without_a_name_uses_the_subjects_of_its_sentences() -> None:
    made = triples_in("Ada Brix was born in Delft. She built a lamp.", "")
    assert ("Ada Brix", "born in", "Delft") in made
    assert all(head.strip() for head, _, _ in made)


pieces = st.sampled_from(
    ["Ada ", "Brix", " and ", ", ", "is a ", "was ", "born in ", "directed by ", "the ", "of ", "(", ")", "1 May 1900", " – ",
     "\n", "| ", ": ", "who ", ". ", "daughter of ", "starring ", "猫", "是", "\"", "*",
     "ed ", "her ", "his father", "; ", "in 1990 ", "A.", "-"]
)  # fmt: skip


@settings(deadline=None, max_examples=examples(300))
@given(
    st.lists(pieces, max_size=60).map("".join), st.sampled_from(["", "Ada", "Ada Brix", "(", "The ", "Ada: Brix [1]"])
)
def test_triplets_are_valid_for_any_text(text: str, title: str) -> None:
    (rows,) = rows_of([Document("d", text, title)])
    for leaf in rows["leaf"]:
        for triplet in triplets_by_rules(text, title, [leaf]):
            assert all(part.strip() and len(part) <= 160 for part in triplet[:3])
            assert (triplet.start, triplet.end) in {(start, end) for start, end, *_ in leaf.sentences}


@pytest.mark.parametrize("piece", ["daughter of A.", "A ", "Aa-", "A, ", "was ", "(", "directed by ", "a the ", "| "])
def test_long_lines_are_read_up_to_a_length(piece: str) -> None:
    """Only the beginning of a line of 100,000 characters is read. A pattern with catastrophic backtracking would never return."""
    (rows,) = rows_of([Document("d", piece * (100_000 // len(piece)), "A")])
    leaf = max(rows["leaf"], key=lambda leaf: leaf.end - leaf.start)
    triplets_by_rules(rows.document.text, "A", [leaf])


def test_topic_of_the_document_may_lack_an_article() -> None:
    assert ("Ada Brix", "was", "Dutch") in triples_in("Ada Brix was Dutch by birth.")
    assert not any(relation == "was" for _, relation, _ in triples_in("Guido Holm was Dutch by birth."))
