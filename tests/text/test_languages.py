from __future__ import annotations

import gzip
import json
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mergewise
from mergewise.text.languages import (
    detect,
    document_language,
    language_code,
    likely_language,
    question_languages,
    question_words,
    search_words,
)
from mergewise.text.languages.table import language_table
from mergewise.types import Document, FileMetadata

SENTENCES = {
    "en": "The river rises in the mountains and flows into the lake, which is known for its clear water.",
    "de": "Der Fluss entspringt in den Bergen und mündet in den See, der für sein klares Wasser bekannt ist.",
    "fr": "La rivière prend sa source dans les montagnes et se jette dans le lac, qui est connu pour son eau claire.",
    "es": "El río nace en las montañas y desemboca en el lago, que es conocido por su agua clara.",
    "it": "Il fiume nasce nelle montagne e si getta nel lago, che è noto per la sua acqua limpida.",
    "pt": "O rio nasce nas montanhas e deságua no lago, que é conhecido pela sua água clara.",
    "nl": "De rivier ontspringt in de bergen en mondt uit in het meer, dat bekend is om zijn heldere water.",
    "sv": "Floden rinner upp i bergen och mynnar i sjön, som är känd för sitt klara vatten.",
    "pl": "Rzeka wypływa z gór i wpada do jeziora, które jest znane ze swojej czystej wody, ale nie jest głębokie.",
    "tr": "Nehir dağlardan doğar ve berrak suyu ile bilinen göle dökülür, ama yazın çok az akar.",
    "fi": "Joki alkaa vuorilta ja laskee järveen, joka on tunnettu kirkkaasta vedestään, mutta se ei ole syvä.",
    "vi": "Con sông bắt nguồn từ những ngọn núi và chảy vào hồ, nơi được biết đến với nước trong.",
    "ru": "Река берёт начало в горах и впадает в озеро, которое известно своей чистой водой.",
    "uk": "Річка бере початок у горах і впадає в озеро, яке відоме своєю чистою водою.",
    "ar": "ينبع النهر من الجبال ويصب في البحيرة التي تشتهر بمياهها الصافية.",
    "fa": "این رود از کوه‌ها سرچشمه می‌گیرد و به دریاچه‌ای می‌ریزد که برای آب زلال خود شناخته شده است.",
    "hi": "नदी पहाड़ों से निकलती है और झील में गिरती है, जो अपने साफ पानी के लिए जानी जाती है।",
    "el": "Ο ποταμός πηγάζει από τα βουνά και εκβάλλει στη λίμνη.",
    "he": "הנהר נובע מההרים ונשפך לאגם.",
    "th": "แม่น้ำไหลจากภูเขาลงสู่ทะเลสาบ",
    "ja": "川は山から流れ、澄んだ水で知られる湖に注ぐ。",
    "zh": "这条河发源于山区,流入以清澈湖水闻名的湖泊。",
    "ko": "강은 산에서 시작하여 맑은 물로 유명한 호수로 흐른다.",
}


@pytest.mark.parametrize("language", SENTENCES)
def test_the_language_of_a_sentence_is_detected(language: str) -> None:
    assert detect(SENTENCES[language]) == language


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("en", "Press both buttons, then wait until green."),
        ("de", "Garantie erlischt durch unsachgemäße Reparaturen"),
        ("fr", "Appuyez ensuite sur chaque bouton rouge"),
        ("es", "Pulse ambos botones hasta escuchar tres pitidos"),
        ("it", "Premere entrambi pulsanti, quindi attendere"),
        ("pt", "Pressione ambos botões até ouvir três apitos"),
        ("nl", "Druk beide knoppen in, wacht daarna even"),
        ("pl", "Naciśnij oba przyciski, następnie zaczekaj"),
        ("uk", "Натисніть обидві кнопки, потім зачекайте"),
        ("und", "BCM2711 PCIe Bridge; 14e4:2711"),
    ],
)
def test_the_language_of_a_text_without_typical_words_is_told_if_it_is_sure(language: str, text: str) -> None:
    assert detect(text) == language


def test_the_model_is_loaded_only_for_a_text_without_typical_words() -> None:
    program = """
import sys
from mergewise.text.languages import detect
assert detect("The river rises in the mountains and flows into the lake, which is known.") == "en"
assert detect("This is the first part, and the second.") == "en"
assert detect("::: shop.orders.OrderList\\n    options:\\n        inherited_members: true\\n        filters: all") == "und"
assert "py3langid" not in sys.modules
assert detect("Garantie erlischt durch unsachgemäße Reparaturen") == "de" and "py3langid.langid" in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_code_and_addresses_do_not_count() -> None:
    code = (
        "```python\nfor the in that: is_not(of, and_, to, with_the)  # the code of the page is in the repository\n```\n"
    )
    assert detect(code * 20 + SENTENCES["fr"]) == "fr"
    assert detect("`the` <of the=and> https://the.of/and/to") == "und"


def test_an_undetected_language_is_guessed_only_by_script() -> None:
    assert detect("") == detect("42 | 17 | 3.5") == detect("Foo bar baz") == "und"
    assert detect("Foo Москва") == "ru"


def test_foreign_names_in_an_english_sentence_leave_it_english() -> None:
    assert detect("Der Untergang (Downfall) is a German film of 2004, directed by Oliver Hirschbiegel.") in (
        "en",
        "und",
    )
    assert detect("Москва (Moscow) is the capital of Russia and the largest of its cities.") == "en"


@given(st.text(max_size=300))
def test_any_text_has_a_language(text: str) -> None:
    assert detect(text) in {"und", *language_table().languages}


def test_english_sets_are_english(bench: Path) -> None:
    for name in ("squad", "hotpotqa", "musique"):
        with gzip.open(bench / name / "corpus.jsonl.gz", "rt", encoding="utf-8") as lines:
            texts = [json.loads(line)["text"] for line in lines]
        assert {detect(text) for text in texts[::4]} <= {"en", "und"}, name


def test_metadata_of_a_caller_wins_and_of_a_file_only_fills_gaps() -> None:
    german, table = SENTENCES["de"], "42 | 17 | 3.5"
    assert document_language(Document("d", german)) == "de"
    assert document_language(Document("d", german, metadata={"lang": "de-AT"})) == "de"
    assert document_language(Document("d", german, metadata={"language": "Dutch"})) == "nl"
    assert document_language(Document("d", german, metadata={"language": "python"})) == "de"
    assert document_language(Document("d", german, metadata=FileMetadata({"language": "en"}))) == "de"
    assert document_language(Document("d", table, metadata=FileMetadata({"language": "pt-BR"}))) == "pt"
    assert document_language(Document("d", table)) == "und"


def test_codes_come_in_many_forms() -> None:
    given = ("de", "DE-de", "de_AT.UTF-8", "ger", "German", "Deutsch", "nb-NO", "iw", "", "klingon", 5, None)
    assert [language_code(one) for one in given] == ["de"] * 6 + ["no", "he", "", "", "", ""]


def test_a_question_is_in_a_language_of_the_index() -> None:
    both = {"en": 40, "fr": 10}
    assert question_languages("Wo liegt der See?", {"de": 3}) == ("de",)
    assert question_languages("Where does the river rise?", {"de": 3}) == ("de",)
    assert question_languages("Où est le lac ?", both) == ("fr",)
    assert question_languages("Where is the lake?", both) == ("en",)
    assert question_languages("Marconi Tesla", both) == ("en", "fr")
    assert question_languages("Что такое Tesla Motors Incorporated?", {"ru": 1, "en": 9}) == ("ru",)
    assert question_languages("湖はどこですか", {"ja": 2, "zh": 5, "en": 1}) == ("ja",)
    assert question_languages("湖在哪里", {"ja": 2, "en": 5}) == ("ja",)
    assert question_languages("Where is the lake?", {"ru": 2, "ar": 5}) == ("ar", "ru")
    assert question_languages("Where?", {}) == question_languages("Where?", {"und": 3}) == ()


@pytest.mark.parametrize(
    ("language", "question"),
    [
        ("en", "How do I add a header to the answer?"),
        ("de", "Wie füge ich der Antwort eine Kopfzeile hinzu?"),
        ("zh", "如何设置响应头"),
        ("ja", "ヘッダーはどう付けますか"),
        ("ko", "헤더를 어떻게 추가합니까"),
        ("und", "fastapi 0.99.0"),
        ("und", ""),
    ],
)
def test_a_question_alone_tells_its_language_or_not(language: str, question: str) -> None:
    assert likely_language(question) == language


def test_the_trace_names_both_languages(tmp_path: Path) -> None:
    index = mergewise.open(tmp_path, embedder="none")
    index.add([Document("owl.md", "The owl eats mice, and it sleeps all day in the old tower of the town.")])

    def named(question: str) -> list[str]:
        return [step.reason for step in index.context(question).trace if step.action == "languages"]

    assert named("Was frisst die Eule, und wo schläft sie?") == ["the question is in de, the documents are in en"]
    assert named("What does the owl eat?") == named("owl") == []


def test_words_are_stems_with_their_grams() -> None:
    assert search_words("образования, ёлки", ["ru"]).split() == [
        "образован", "#обра", "#браз", "#разо", "#азов", "#зова", "#ован", "#вани", "#ания", "елк", "#елки",
    ]  # fmt: skip
    assert search_words("Häuser", ["de"]).split() == ["haus", "#haus", "#ause", "#user"]
    assert search_words("l'été", ["fr"]).split() == ["l", "ete"]


def test_turkish_letters_and_apostrophes() -> None:
    assert search_words("İstanbul'da", ["tr"]) == search_words("istanbul da", ["tr"])
    assert search_words("ILIK", ["tr"]) == search_words("ılık", ["tr"])
    assert "i\u0307" not in search_words("İstanbul", ["de"])


def test_accents_are_letters_in_vietnamese_and_vowels_in_hindi() -> None:
    assert search_words("là", ["vi"]) != search_words("la", ["vi"])
    assert search_words("là", ["fr"]) == search_words("la", ["fr"])
    assert search_words("दिन", ["hi"]) != search_words("दान", ["hi"])
    assert search_words("E\u0301cole", ["fr"]) == search_words("École", ["fr"])


def test_scripts_without_spaces_give_characters_and_pairs_or_runs_of_three() -> None:
    assert search_words("特斯拉 ABC的", ["zh"]).split() == ["特", "斯", "拉", "特斯", "斯拉", "abc", "的"]
    assert search_words("ง่ายมาก", ["th"]).split() == ["ง่า", "่าย", "ายม", "ยมา", "มาก"]


def test_only_chinese_characters_are_chinese() -> None:
    # Yi, a private sign such as bullets of PDF files, and a Chinese character for compatibility
    yi, private, chinese = "\ua188\ua320\ua071", "\uf0b7", "\uf900"
    assert detect(yi * 30) != "zh" and detect(chinese * 30) == "zh"
    assert search_words(yi, ["zh"]).split()[0] == yi and search_words(private, ["zh"]) == ""
    assert search_words(chinese, ["zh"]) == unicodedata.normalize("NFC", chinese)


def test_a_question_has_each_word_of_each_language_once() -> None:
    words = question_words("Haus Haus maison", ["de", "fr"]).split()
    assert len(words) == len(set(words)) and {"haus", "maison", "#mais"} <= set(words)


@given(st.text(max_size=80), st.sampled_from(sorted(language_table().languages)))
def test_a_question_is_cut_as_documents_are(text: str, language: str) -> None:
    words = search_words(text, [language])
    assert set(question_words(text, [language]).split()) == set(words.split())
    assert "  " not in words and not any(word.isspace() for word in words.split(" "))
