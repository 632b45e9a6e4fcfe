"""Loaders of public question sets, on small samples: recognition, reading, and reports of invalid rows."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import mergewise
from mergewise.errors import UsageError
from mergewise.evaluate import evaluate
from mergewise.evaluate.loaders import find_tasks, form_of, load_question_set
from mergewise.evaluate.loaders.rows import HEAD
from mergewise.evaluate.means import method_means
from mergewise.evaluate.measured import measured_runs
from mergewise.evaluate.question_sets import Question, QuestionSet, clusters
from mergewise.evaluate.run import tasks_at

MILL = "The mill of Arden was built in 1612. It burned in 1700."
BRIDGE = "The bridge of Brook is old. Anna Berg built it."
HOTPOT = {
    "_id": "h1", "question": "Who built the bridge of the town with the mill?", "answer": "Anna Berg", "type": "bridge",
    "context": [
        ["Arden", ["The mill of Arden was built in 1612.", " It burned in 1700."]],
        ["Brook", ["The bridge of Brook is old.", " Anna Berg built it."]],
    ],
    "supporting_facts": [["Arden", 0], ["Brook", 1]],
}  # fmt: skip
WIKI = {
    **HOTPOT,
    "_id": "w1",
    "context": [[title, [one.strip() for one in sentences]] for title, sentences in HOTPOT["context"]],  # type: ignore[attr-defined]
}
PARAGRAPHS = [
    {"idx": 0, "title": "Arden", "paragraph_text": MILL, "is_supporting": True},
    {"idx": 1, "title": "Corin", "paragraph_text": "Corin is a lake.", "is_supporting": False},
    {"idx": 2, "title": "Brook", "paragraph_text": BRIDGE, "is_supporting": True},
]
MUSIQUE = {
    "id": "2hop__1_2", "question": "Who built the bridge?", "answerable": True, "paragraphs": PARAGRAPHS,
    "answer": "Anna Berg", "answer_aliases": ["A. Berg", "Anna Berg"],
    "question_decomposition": [
        {"id": 1, "question": "?", "answer": "1612", "paragraph_support_idx": 0},
        {"id": 2, "question": "?", "answer": "Anna Berg", "paragraph_support_idx": 2},
    ],
}  # fmt: skip
LONGBENCH = {
    "_id": "l1", "dataset": "hotpotqa", "input": "Who built the bridge?", "answers": ["Anna Berg"],
    "context": f"Passage 1:\nArden\n{MILL}\n\nPassage 2:\nBrook\n{BRIDGE}\n",
}  # fmt: skip
SQUAD = {
    "version": "v2.0",
    "data": [
        {
            "title": "Old_towns",
            "paragraphs": [
                {
                    "context": MILL,
                    "qas": [
                        {
                            "id": "s1",
                            "question": "When was the mill built?",
                            "is_impossible": False,
                            "answers": [{"text": "1612", "answer_start": 31}, {"text": "in 1612", "answer_start": 28}],
                        },
                        {"id": "s2", "question": "Who?", "is_impossible": True, "answers": []},
                    ],
                },
                {
                    "context": BRIDGE,
                    "qas": [
                        {
                            "id": "s3",
                            "question": "Who built it?",
                            "answers": [{"text": "Anna Berg", "answer_start": 28}],
                        }
                    ],
                },
            ],
        }
    ],
}
QASPER = {
    "1234.5": {
        "title": "On mills",
        "abstract": "We study mills.",
        "full_text": [
            {"section_name": "Introduction", "paragraphs": [MILL, "Mills  grind."]},
            {"section_name": "Methods ::: Grain", "paragraphs": ["We use rye and wheat."]},
        ],
        "qas": [
            {
                "question": "Which grain?",
                "question_id": "p1",
                "answers": [
                    {
                        "answer": {
                            "unanswerable": False,
                            "extractive_spans": ["rye", "wheat"],
                            "yes_no": None,
                            "free_form_answer": "",
                            "evidence": ["We use rye and wheat."],
                        }
                    },
                    {
                        "answer": {
                            "unanswerable": False,
                            "extractive_spans": [],
                            "yes_no": None,
                            "free_form_answer": "Two grains",
                            "evidence": ["FLOAT SELECTED: Table 1"],
                        }
                    },
                ],
            },
            {
                "question": "Do they grind?",
                "question_id": "p2",
                "answers": [
                    {
                        "answer": {
                            "unanswerable": False,
                            "extractive_spans": [],
                            "yes_no": True,
                            "free_form_answer": "",
                            "evidence": ["FLOAT SELECTED: Figure 2"],
                        }
                    }
                ],
            },
            {
                "question": "Why?",
                "question_id": "p3",
                "answers": [{"answer": {"unanswerable": True, "extractive_spans": [], "yes_no": None, "evidence": []}}],
            },
        ],
    }
}
FLASHRAG = {
    "id": "test_0",
    "question": "Who built it?",
    "golden_answers": ["Anna Berg"],
    "metadata": {"type": "bridge"},
}
PASSAGE = {"title": "Brook", "text": BRIDGE}
DPR = {
    "question": "who built the bridge",
    "answers": ["Anna Berg"],
    "positive_ctxs": [PASSAGE],
    "negative_ctxs": [],
    "hard_negative_ctxs": [{"title": "Arden", "text": MILL}],
}
RETRIEVED = {"id": "wiki:1", **PASSAGE, "score": "8.1", "has_answer": True}
FOUND = {"id": "0", "question": "who", "answers": ["x"], "ctxs": [RETRIEVED]}


def write(path: Path, *rows: Any) -> Path:
    """Write JSON lines or one JSON value, compressed or plain, by the suffix of the name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    is_lines = ".jsonl" in path.name
    text = "".join(json.dumps(row) + "\n" for row in rows) if is_lines else json.dumps(rows[0])
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def hipporag(folder: Path) -> Path:
    texts = ("Arden", MILL), ("Brook", BRIDGE), ("Brook", "A brook.")
    write(folder / "wiki_corpus.json", [{"title": title, "text": text} for title, text in texts])
    return write(folder / "wiki.json", [WIKI])


def beir(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    corpus = {"_id": "d1", "title": "Arden", "text": MILL}, {"_id": "d2", "title": "Brook", "text": ""}
    write(folder / "corpus.jsonl", *corpus)
    write(folder / "queries.jsonl", {"_id": "q1", "text": "mill", "metadata": {}}, {"_id": "q2", "text": "unjudged"})
    (folder / "qrels").mkdir()
    (folder / "qrels" / "train.tsv").write_text("query-id\tcorpus-id\tscore\nq2\td1\t1\n")
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td1\t2\nq1\td2\t0\n")
    return folder


def pairs(folder: Path) -> Path:
    (folder / "psgs_w100.tsv").write_text(f'id\ttext\ttitle\n7\t"{BRIDGE}"\tBrook\n')
    file = folder / "nq-test.qa.csv"
    file.write_text("who built the bridge\t['Anna Berg', \"Anna's\"]\n")
    return file


FORMS: dict[str, tuple[str, Callable[[Path], Path]]] = {
    "hotpotqa": ("hotpotqa", lambda folder: write(folder / "dev.json", [HOTPOT])),
    "2wiki": ("hotpotqa", lambda folder: write(folder / "dev.json.gz", [WIKI])),
    "musique": ("musique", lambda folder: write(folder / "dev.jsonl", MUSIQUE)),
    "hipporag": ("hipporag", hipporag),
    "longbench": ("longbench", lambda folder: write(folder / "hotpotqa.jsonl", LONGBENCH)),
    "squad": ("squad", lambda folder: write(folder / "dev-v2.0.json", SQUAD)),
    "qasper": ("qasper", lambda folder: write(folder / "dev.json", QASPER)),
    "flashrag": ("flashrag", lambda folder: write(folder / "test.jsonl", FLASHRAG)),
    "dpr": ("dpr", lambda folder: write(folder / "biencoder-nq-dev.json", [DPR])),
    "found": ("dpr", lambda folder: write(folder / "nq.jsonl", FOUND)),
    "pairs": ("dpr", pairs),
    "beir": ("beir", beir),
}


@pytest.mark.parametrize("sample", FORMS)
def test_the_form_is_recognised(sample: str, tmp_path: Path) -> None:
    form, make = FORMS[sample]
    path = make(tmp_path)
    assert form_of(path) == form
    task = load_question_set(path)
    assert task == load_question_set(path, form, is_strict=True) and task.questions and not task.skipped
    # documents of evidence, gold and scopes exist
    texts = {document.id: document.text for document in task.documents}
    assert len(texts) == len(task.documents)
    for question in task.questions:
        assert {*question.gold_docs, *question.scope} <= texts.keys()
        for span, text in question.evidence or ():
            assert texts[span.doc_id][span.start : span.end] == text == text.strip() != ""


def load_sample(sample: str, folder: Path) -> QuestionSet:
    return load_question_set(FORMS[sample][1](folder))


def evidence(question: Question) -> list[str]:
    return [text for _, text in question.evidence or ()]


@pytest.mark.parametrize("sample", ["hotpotqa", "2wiki"])
def test_supporting_sentences_are_evidence(sample: str, tmp_path: Path) -> None:
    task = load_sample(sample, tmp_path)
    (question,) = task.questions
    assert [(one.title, one.text) for one in task.documents] == [("Arden", MILL), ("Brook", BRIDGE)]
    assert evidence(question) == ["The mill of Arden was built in 1612.", "Anna Berg built it."]
    own = question.answers, question.kind, question.hops, question.gold_docs
    assert own == (("Anna Berg",), "bridge", 2, ("0", "1"))


def test_a_missing_fact_leaves_only_gold_documents(tmp_path: Path) -> None:
    row = {**HOTPOT, "supporting_facts": {"title": ["Arden", "Brook"], "sent_id": [0, 9]}}
    row["context"] = {"title": ["Arden", "Brook"], "sentences": [pair[1] for pair in HOTPOT["context"]]}
    (question,) = load_question_set(write(tmp_path / "dev.json", [row])).questions
    assert question.evidence is None and question.gold_docs == ("0", "1")


def test_paragraphs_are_in_the_pool_once(tmp_path: Path) -> None:
    task = load_question_set(write(tmp_path / "dev.json", [HOTPOT, {**HOTPOT, "_id": "h2"}]))
    assert len(task.documents) == 2 and [one.gold_docs for one in task.questions] == [("0", "1")] * 2


def test_hops_of_musique(tmp_path: Path) -> None:
    (question,) = load_sample("musique", tmp_path).questions
    assert evidence(question) == ["The mill of Arden was built in 1612.", "Anna Berg built it."]
    assert (question.answers, question.gold_docs) == (("Anna Berg", "A. Berg"), ("0", "2"))
    assert (question.kind, question.hops, question.scope) == ("2hop", 2, ())
    elsewhere = {**MUSIQUE, "question_decomposition": [{"answer": "nowhere", "paragraph_support_idx": 0}]}
    (question,) = load_question_set(write(tmp_path / "other.jsonl", elsewhere)).questions
    assert question.evidence is None and question.gold_docs == ("0", "2")


def test_unanswerable_questions_of_musique_have_a_scope(tmp_path: Path) -> None:
    twin = {**MUSIQUE, "answerable": False, "paragraphs": PARAGRAPHS[:2]}
    task = load_question_set(write(tmp_path / "full.jsonl", MUSIQUE, twin))
    yes, no = task.questions
    assert (yes.answerable, no.answerable, no.answers, no.evidence) == (True, False, (), None)
    assert (yes.scope, no.scope) == (("0", "1", "2"), ("0", "1")) and clusters(task.questions) == [0, 0]
    assert no.id == "2hop__1_2#unanswerable"


def test_gold_of_a_pool_is_found_by_text_or_by_a_unique_title(tmp_path: Path) -> None:
    (question,) = load_sample("hipporag", tmp_path).questions
    assert question.gold_docs == ("0", "1") and question.evidence is None
    gone = {**WIKI, "_id": "w2", "context": [["Arden", ["Other words."]], ["Brook", ["Other words."]]]}
    write(tmp_path / "wiki.json", [WIKI, gone])
    task = load_question_set(tmp_path / "wiki.json")
    # Arden has one passage, Brook two
    assert [str(one).split(", ", 1)[1] for one in task.skipped] == ["line 1: gold passage not in the corpus: 'Brook'"]
    write(tmp_path / "wiki.json", [MUSIQUE])
    assert load_question_set(tmp_path / "wiki.json").questions[0].gold_docs == ("0", "1")


def test_questions_of_longbench_have_a_scope(tmp_path: Path) -> None:
    second = {**LONGBENCH, "_id": "l2", "input": "When?"}
    third = {**LONGBENCH, "_id": "l3", "context": MILL}
    task = load_question_set(write(tmp_path / "x.jsonl", LONGBENCH, second, third))
    assert [(one.title, one.text) for one in task.documents] == [("Arden", MILL), ("Brook", BRIDGE), ("", MILL)]
    assert [one.scope for one in task.questions] == [("0", "1"), ("0", "1"), ("2",)]
    assert clusters(task.questions) == [0, 0, 1]
    assert [(one.evidence, one.gold_docs, one.answerable) for one in task.questions] == [(None, (), True)] * 3


def test_answers_of_squad_in_their_sentences(tmp_path: Path) -> None:
    task = load_sample("squad", tmp_path)
    when, impossible, who = task.questions
    assert [(one.title, one.text) for one in task.documents] == [("Old towns", f"{MILL}\n\n{BRIDGE}")]
    assert evidence(when) == ["The mill of Arden was built in 1612."] and when.answers == ("1612", "in 1612")
    assert evidence(who) == ["Anna Berg built it."]
    assert (impossible.answerable, impossible.evidence) == (False, None)
    assert clusters(task.questions) == [0, 0, 0]


def test_papers_of_qasper_by_sections(tmp_path: Path) -> None:
    task = load_sample("qasper", tmp_path)
    (paper,) = task.documents
    assert paper.title == "On mills" and "\n\n## Grain\n\nWe use rye" in paper.text
    which, do, why = task.questions
    assert (which.answers, which.kind) == (("rye, wheat", "Two grains"), "extractive")
    assert evidence(which) == ["We use rye and wheat."]
    assert (do.answers, do.kind, do.evidence) == (("Yes",), "yes-no", None)
    assert (why.answerable, why.kind) == (False, "unanswerable")
    assert {one.scope for one in task.questions} == {("1234.5",)} and clusters(task.questions) == [0, 0, 0]


def test_passages_of_dpr(tmp_path: Path) -> None:
    task = load_sample("dpr", tmp_path)
    assert [one.title for one in task.documents] == ["Brook", "Arden"] and task.questions[0].gold_docs == ("0",)
    # a passage that contains the answer is not therefore gold
    assert load_sample("found", tmp_path).questions[0].gold_docs == ()
    task = load_sample("pairs", tmp_path)
    assert [(one.id, one.title, one.text) for one in task.documents] == [("7", "Brook", BRIDGE)]
    assert task.questions[0].answers == ("Anna Berg", "Anna's")


def test_an_invalid_list_of_answers_is_reported(tmp_path: Path) -> None:
    file = pairs(tmp_path)
    text = file.read_text()
    file.write_text(text + "what\t[call(\nwhy\t" + "[" * 5000 + "\nhow\tabout it\nwho\n" + text)
    task = load_question_set(file)
    assert [one.id for one in task.questions] == ["line 1", "line 6"]
    assert [one.place for one in task.skipped] == ["line 2", "line 3", "line 4", "line 5"]


def test_a_set_is_named_after_its_folder_from_any_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(beir(tmp_path / "scifact"))
    assert load_question_set(Path()).name == "scifact"


def test_flashrag_with_and_without_paragraphs(tmp_path: Path) -> None:
    assert load_sample("flashrag", tmp_path).documents == ()
    row = {**FLASHRAG, "metadata": {key: HOTPOT[key] for key in ("type", "context", "supporting_facts")}}
    task = load_question_set(write(tmp_path / "dev.jsonl", row))
    assert len(task.documents) == 2 and evidence(task.questions[0])[1] == "Anna Berg built it."


def test_judgements_of_beir(tmp_path: Path) -> None:
    task = load_sample("beir", tmp_path)
    (question,) = task.questions  # questions of the test part with judgements
    assert (question.id, question.gold_docs, question.grades) == ("q1", ("d1",), (2,))
    assert (question.answerable, question.has_answers, question.gains) == (True, False, {"d1": 2})
    assert task.documents[1].text == "Brook"  # a document of its title alone


def test_our_own_form_may_name_documents_instead_of_spans(tmp_path: Path) -> None:
    write(tmp_path / "corpus.jsonl", {"id": "0", "title": "Arden", "text": MILL}, {"id": "1", "text": BRIDGE})
    row = {"id": "a", "question": "When?", "answers": ["1612"], "gold_docs": ["0"]}
    write(
        tmp_path / "questions.jsonl.gz",
        row,
        {**row, "id": "b", "scope": ["1"], "hops": 2, "type": "bridge", "cluster": "c"},
    )
    first, second = load_question_set(tmp_path).questions
    assert (first.evidence, first.documents, first.where) == (None, frozenset({"0"}), None)
    assert (second.hops, second.kind, second.cluster) == (2, "bridge", "c")
    assert second.where == {"type": "in", "key": "id", "value": ["1"]}


@pytest.mark.parametrize("packed", [False, True])
def test_byte_order_marks_and_line_ends_do_not_matter(packed: bool, tmp_path: Path) -> None:
    plain = load_question_set(write(tmp_path / "plain.jsonl", MUSIQUE, {**MUSIQUE, "id": "3hop1__1"}))
    text = b"\xef\xbb\xbf" + (tmp_path / "plain.jsonl").read_bytes().replace(b"\n", b"\r\n\r\n")
    (tmp_path / "marked.jsonl").write_bytes(gzip.compress(text) if packed else text)
    assert load_question_set(tmp_path / "marked.jsonl").questions == plain.questions


@pytest.mark.parametrize(
    ("sample", "broken", "reason"),
    [
        ("hotpotqa", [HOTPOT, {"question": "?", "context": []}], "line 1: missing 'id'"),
        ("hotpotqa", [HOTPOT, {**HOTPOT, "_id": "x", "context": [["Arden"]]}], "line 1: invalid row: "),
        ("hotpotqa", [HOTPOT, [1]], "line 1: not a JSON object"),
        ("hotpotqa", [HOTPOT, HOTPOT], "line 1: duplicate id of a question: 'h1'"),
        ("hotpotqa", [HOTPOT, {**HOTPOT, "_id": "x", "question": " "}], "line 1: missing question"),
        ("musique", [MUSIQUE, {**MUSIQUE, "id": "x", "answer": None, "answer_aliases": []}], "line 2: missing answer"),
        ("musique", [MUSIQUE, "text"], "line 2: not a JSON object"),
        ("longbench", [LONGBENCH, {**LONGBENCH, "_id": "x", "context": ""}], "line 2: empty document"),
        ("longbench", [LONGBENCH, {**LONGBENCH, "_id": "x", "context": None}], "line 2: invalid row: "),
        ("flashrag", [FLASHRAG, {**FLASHRAG, "id": "x", "question": None}], "line 2: invalid row: "),
        ("dpr", [DPR, {**DPR, "positive_ctxs": [{"title": "x"}]}], "line 1: missing 'text'"),
    ],
)
def test_an_invalid_row_is_reported_and_left_out(sample: str, broken: list[Any], reason: str, tmp_path: Path) -> None:
    form, make = FORMS[sample]
    path = make(tmp_path)
    write(path, *broken) if ".jsonl" in path.name else write(path, broken)
    task = load_question_set(path)
    assert len(task.questions) == 1
    (skipped,) = task.skipped
    assert str(skipped).startswith(f"{path}, {reason}")
    with pytest.raises(UsageError) as error:
        load_question_set(path, form, is_strict=True)
    assert str(error.value).startswith(f"{path}, {reason}")


def test_invalid_places_in_nested_files_are_reported(tmp_path: Path) -> None:
    squad: Any = json.loads(json.dumps(SQUAD))
    squad["data"][0]["paragraphs"][1]["qas"][0]["answers"][0]["answer_start"] = 3
    squad["data"].append({"title": "x"})
    task = load_question_set(write(tmp_path / "squad.json", squad))
    assert [(one.place, one.reason) for one in task.skipped] == [
        ("article 2", "missing 'paragraphs'"),
        ("article 1, paragraph 2, question 1", "answer not at its offset in the paragraph: 'Anna Berg'"),
    ]
    qasper: Any = json.loads(json.dumps(QASPER))
    qasper["1234.5"]["qas"][1]["answers"] = []
    task = load_question_set(write(tmp_path / "qasper.json", qasper))
    assert [(one.place, one.reason) for one in task.skipped] == [("paper 1234.5, question 2", "missing annotation")]
    folder = beir(tmp_path / "beir")
    (folder / "qrels" / "test.tsv").write_text("q1\td1\t1\nq1\td2\n")
    assert [str(one) for one in load_question_set(folder).skipped] == [
        f"{folder / 'qrels' / 'test.tsv'}, line 2: invalid row: not enough values to unpack (expected 3, got 2)"
    ]


@pytest.mark.parametrize(
    "content", ['[{"question": "a", "context": [], "supporting_facts": []', '[{"question": "a"}, {"b": nu']
)
def test_a_truncated_list_raises_an_error(content: str, tmp_path: Path) -> None:
    (tmp_path / "dev.json").write_text(content)
    with pytest.raises(UsageError, match=r"truncated"):
        load_question_set(tmp_path / "dev.json", "hotpotqa")


def test_other_files_are_not_question_sets(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("# Notes\n")
    (tmp_path / "picture.json").write_bytes(bytes(range(128, 256)))
    write(tmp_path / "settings.json", {"a": 1})
    (tmp_path / "empty.json").write_text("")
    for name in ("notes.md", "picture.json", "settings.json", "empty.json", "gone"):
        with pytest.raises(UsageError):
            load_question_set(tmp_path / name)
    with pytest.raises(UsageError, match="no question set"):
        find_tasks(tmp_path)
    with pytest.raises(UsageError, match="one of: bench"):
        load_question_set(tmp_path / "notes.md", "nothing")
    write(tmp_path / "dev.json", [HOTPOT])
    write(tmp_path / "rows.questions.jsonl", {"question": "?", "gold": []})
    assert find_tasks(tmp_path) == [tmp_path / "dev.json"]
    assert find_tasks(tmp_path / "notes.md") == [tmp_path / "notes.md"]


def test_a_long_first_record_is_read_completely(tmp_path: Path) -> None:
    filler = [["Filler", ["word " * HEAD]]]
    long = {**HOTPOT, "context": [*HOTPOT["context"], *filler]}
    assert form_of(write(tmp_path / "dev.json", [long])) == "hotpotqa"
    assert (
        form_of(write(tmp_path / "x.jsonl", {**LONGBENCH, "context": "word " * HEAD, "answers": ["x"]})) == "longbench"
    )


def test_the_form_can_be_overridden(tmp_path: Path) -> None:
    """FlashRAG's rows can be read as a table, which leaves out rows without its column `answer`."""
    path = write(tmp_path / "x.jsonl", {**FLASHRAG, "answer": "Anna"})
    assert load_question_set(path).questions[0].answers == ("Anna Berg",)
    assert load_question_set(path, "table").questions[0].answers == ("Anna",)


def test_contexts_come_from_the_scope_of_the_question_only(tmp_path: Path) -> None:
    other = {**LONGBENCH, "_id": "l2", "context": "Anna Berg built the bridge of Delos, too."}
    task = load_question_set(write(tmp_path / "x.jsonl", LONGBENCH, other))
    index = mergewise.open(tmp_path / "index", embedder="none")
    index.add(task.documents)
    run = evaluate(task, "topk", 400, index=index)
    ranked = [{one.doc for one in row.ranking} for row in run.run_rows()]
    assert all(found <= set(one.scope) for found, one in zip(ranked, task.questions, strict=True))
    assert ranked[1] == {"2"}
    # without gold documents or evidence, their scores are missing, not 0
    (mean,) = method_means(run, measured_runs([run]))
    assert mean.scores.keys() == {"answer", "density", "tokens", "query_ms"} and mean.scores["answer"] == 1.0


@pytest.mark.parametrize(
    ("file", "row", "name"),
    [
        ("hotpot_dev_distractor_v1.json", [HOTPOT], "hotpotqa"),
        ("2wiki_dev.json", [WIKI], "2wiki"),
        ("musique_ans_v1.0_dev.jsonl", MUSIQUE, "musique"),
        ("2wikimqa.jsonl", LONGBENCH, "longbench-2wikimqa"),
        ("hotpotqa_e.jsonl", LONGBENCH, "longbench-hotpotqa"),
        ("qasper-dev-v0.3.json", QASPER, "qasper"),
        ("nq/test.jsonl", FLASHRAG, "nq"),
        ("biencoder-nq-dev.json", [DPR], "nq"),
        ("hotpotqa-long.json", [HOTPOT], "hotpotqa-long"),
        ("mine.json", [HOTPOT], "mine"),
    ],
)
def test_public_files_have_the_names_of_the_papers_columns(file: str, row: Any, name: str, tmp_path: Path) -> None:
    (tmp_path / file).parent.mkdir(exist_ok=True)
    path = write(tmp_path / file, row)
    assert load_question_set(path).name == name
    assert [task.name for task in tasks_at(Path(f"other={path}"))] == ["other"]


def test_the_questions_of_dpr_are_known(tmp_path: Path) -> None:
    assert load_question_set(pairs(tmp_path)).name == "nq"
