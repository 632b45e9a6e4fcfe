"""Confidence in quotations."""

from __future__ import annotations

import pytest

from mergewise import Span
from mergewise.generate.confidence import MOST_MARGIN, Signals
from mergewise.types import Evidence

QUESTION = "What is the default timeout of the Client of HTTPX?"


def signals(
    question: str,
    quoted: str,
    around: str = "",
    *,
    vectors: bool = True,
    margin: float = 2.0,
    relevance: float = 0.5,
    language: str = "en",
) -> Signals:
    best = Evidence(
        span=Span("a", 0, len(quoted)),
        text=quoted,
        needed=(),
        relevance=relevance,
        cosine=0.6 if vectors else None,
        terms=0.5,
        path_terms=0.5,
        document_terms=0.9,
    )
    return Signals.of(
        question, quoted, around, best, nearest=float(vectors), margin=margin, language=language, passages=quoted
    )


def test_shares_of_names_and_of_other_terms() -> None:
    known = signals(QUESTION, "The default timeout is five seconds.", "httpx/timeouts.md")
    assert (known.named, known.asked, known.covered) == (0.5, 1.0, 0.75)
    assert signals("Why?", "Because.").named == 1.0


def test_a_leading_sentence_covers_only_the_names() -> None:
    question = "When was the director of Amar Sangi born?"
    first_hop = signals(question, "Amar Sangi is a film directed by Sujit Guha.")
    answer = signals(question, "Sujit Guha was born in 1950.", "Amar Sangi is a film directed by Sujit Guha.", margin=3)
    assert first_hop.lacks_kind and not answer.lacks_kind
    assert first_hop.sure() < 0.6 <= answer.sure()


@pytest.mark.parametrize(
    ("question", "lacks", "has"),
    [
        (
            "Why does mkstemp delete the file?",
            "The user of mkstemp deletes the file.",
            "It deletes it because it leaks.",
        ),
        ("Who wrote the module?", "The module has examples.", "The module was written by Ada Brix."),
        ("What does the server read?", "The server reads these files:", "The server reads these files:\n\n- a.conf"),
        ("How many threads are started?", "Changed in version 3.10: threads are safe.", "It starts four threads."),
        ("What is the maximum depth?", "The maximum depth of recursion.", "The maximum depth is `deep`."),
        ("In welchem Jahr begann das Projekt?", "Das Projekt begann im Sommer.", "Das Projekt begann im Juni 2014."),
        ("Combien de fois est-elle appelée ?", "Elle est appelée.", "Elle est appelée deux fois."),
        ("Wie oft werden Protokolle geprüft?", "Protokolle werden geprüft.", "Sie werden jede Stunde geprüft."),
        ("Combien coûte le cours ?", "Le cours est payant.", "Le cours coûte 30 CHF."),
        ("In what year was Pompeii destroyed?", "Pompeii was destroyed in summer.", "Pompeii was destroyed in AD 79."),
        (
            "Why do tests run in parallel?",
            "Tests do not run in parallel because they share state.",
            "Tests run in parallel because they do not share state.",
        ),
    ],
)
def test_a_quotation_has_the_form_that_the_question_asks_for(question: str, lacks: str, has: str) -> None:
    assert signals(question, lacks, lacks).sure() == 0 < signals(question, has, has).sure()


@pytest.mark.parametrize(
    ("question", "otherwise", "so"),
    [
        (
            "Pourquoi la fonction modifie-t-elle les variables ?",
            "La fonction ne modifie aucune variable, car elle est pure.",
            "La fonction modifie les variables, car elle est impure.",
        ),
        (
            "Warum prüft das Programm keine Anfragen?",
            "Das Programm prüft Anfragen, da sie fremd sind.",
            "Das Programm prüft keine Anfragen, da sie sicher sind.",
        ),
        (
            "Why does the server restart?",
            "The server does not restart, because it is stable.",
            "The server restarts, because it reads its settings again.",
        ),
    ],
)
def test_a_reason_for_the_opposite_is_never_sure(question: str, otherwise: str, so: str) -> None:
    assert signals(question, otherwise).sure() == 0 < signals(question, so).sure()


@pytest.mark.parametrize("name", ["`@app.blitz`", "`app.blitz`", "@blitz", "`blitz`"])
def test_a_name_in_code_is_looked_for(name: str) -> None:
    assert signals(f"Was macht der Dekorator {name}?", "Der Dekorator `@app.get` der app.").lacks_name
    assert not signals(f"Was macht der Dekorator {name}?", "Der Dekorator `@app.blitz` der app.").lacks_name


@pytest.mark.parametrize("language", ["fr", "en"])
def test_terms_and_weights_are_those_of_the_texts_language(language: str) -> None:
    likely, less = (
        signals(
            "Que fait le serveur avec les fichiers ?",
            "Le serveur lit un fichier.",
            vectors=False,
            relevance=relevance,
            language=language,
        )
        for relevance in (0.9, 0.5)
    )
    french = language == "fr"
    assert (less.covered == 1) is french and (less.sure() < likely.sure()) is french


@pytest.mark.parametrize("vectors", [True, False])
def test_more_covered_terms_raise_the_confidence(vectors: bool) -> None:
    less = signals(QUESTION, "The timeout is long.", vectors=vectors)
    more = signals(QUESTION, "The default timeout of httpx.Client is five seconds.", vectors=vectors)
    assert 0 < less.found() < more.found() < 1 and 0 <= less.sure() < more.sure() < 1
    assert signals(QUESTION, "The timeout.", margin=99).margin == MOST_MARGIN


def test_without_vectors_a_sure_answer_abroad_has_half_of_the_terms() -> None:
    half = signals("Welche Farbe hat der Turm?", "Der Turm ist rot.", vectors=False, language="de")
    assert half.covered == 0.5 and half.sure() > 0
    assert half._replace(covered=0.49).sure() == 0 < half._replace(covered=0.49, cosine=0.6).sure()
    assert half._replace(covered=0.49, abroad=False).sure() > 0
