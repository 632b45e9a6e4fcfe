"""E-mail messages and mailboxes."""

from __future__ import annotations

import base64
import mailbox
from email.message import EmailMessage
from pathlib import Path

import pytest
from tests.readers.documents import Read, Refusal, outline, titles
from tests.support import read

from mergewise.readers.mail import _word_text


def message(subject: str = "Über Enten", body: str = "Grüße\n\n> Ducks?\n> Yes.\n\nAnn\n") -> EmailMessage:
    mail = EmailMessage()
    mail["Subject"], mail["From"], mail["To"] = subject, "Ann Ä <ann@x.org>", "bob@x.org, Eve <eve@x.org>"
    mail["Date"] = "Fri, 01 May 2020 23:30:00 -0500"
    mail.set_content(body)
    return mail


def test_a_message(read_bytes: Read) -> None:
    mail = message()
    mail.add_attachment(b"%PDF-1.4 secret", maintype="application", subtype="pdf", filename="Größe.pdf")
    document = read_bytes("a.eml", mail.as_bytes())
    assert document.text == (
        "Über Enten\n\nFrom: Ann Ä <ann@x.org>\nTo: bob@x.org, Eve <eve@x.org>\nDate: Fri, 01 May 2020 23:30:00 -0500\n\n"
        "Grüße\n\n> Ducks?\n> Yes.\n\nAnn\n\nAttachments: Größe.pdf"
    )
    assert document.title == "Über Enten"
    assert document.metadata == {
        "author": "Ann Ä <ann@x.org>",
        "recipients": "bob@x.org, Eve <eve@x.org>",
        "date": "2020-05-01",
    }


def test_very_long_subject(read_bytes: Read) -> None:
    """It stays whole in the text. As title it would be repeated with every leaf."""
    document = read_bytes("a.eml", "Subject: " + "x" * 50_000 + "\n\nOwls eat mice.\n")
    assert document.text.startswith("x" * 50_000) and document.title == "x" * 299 + "…"


@pytest.mark.parametrize("charset", ["utf-8", "iso-8859-15", "shift_jis"])
def test_encodings(read_bytes: Read, charset: str) -> None:
    text = "ダックは泳ぐ。" if charset == "shift_jis" else "Größe 5 €"
    mail = message()
    mail.set_content(text, charset=charset, cte="base64")
    assert text in read_bytes("a.eml", mail.as_bytes()).text


def test_plain_text_is_preferred_to_html(read_bytes: Read) -> None:
    mail = message(body="plain\n")
    mail.add_alternative("<p>rich</p>", subtype="html")
    text = read_bytes("a.eml", mail.as_bytes()).text
    assert "plain" in text and "rich" not in text


def test_message_in_html(read_bytes: Read) -> None:
    mail = message()
    mail.set_content("<h1>Größe</h1><p>rich <b>text</b></p><script>x()</script>", subtype="html", charset="iso-8859-1")
    document = read_bytes("a.eml", mail.as_bytes())
    assert document.text.endswith("\n\nGröße\n\nrich text")
    assert outline(document) == [(1, "Über Enten"), (2, "Größe")]


def test_a_message_without_a_subject_and_with_broken_headers(read_bytes: Read) -> None:
    head = "From: =?utf-8?q?broken\nTo: <<<>>,;:\nDate: some day\nContent-Type: text/plain; charset=nonsense\n"
    document = read_bytes("a.eml", f"{head}\nGrüße\n")
    assert document.text.startswith("(no subject)\n\nFrom: ")
    assert document.text.endswith("\n\nGrüße")
    assert "date" not in document.metadata


def test_mailbox(tmp_path: Path) -> None:
    path = tmp_path / "list.mbox"
    box = mailbox.mbox(path)
    box.add(message("First", "From here on\n\nFrom the start: no\n"))
    box.add(message("Second", "text\n"))
    box.close()
    document = read(path)
    assert titles(document) == ["First", "Second"]
    assert "\n\nFrom here on\n\nFrom the start: no\n\nSecond\n\n" in document.text
    assert (document.title, document.metadata) == ("list", {})


def test_other_content_is_refused(refusal: Refusal) -> None:
    assert refusal("a.eml", "just words") == "not an e-mail, looks like text"
    assert refusal("a.mbox", "just words") == "not a mailbox, looks like text"
    assert refusal("b.eml", b"\x89PNG\r\n\x1a\n" + bytes(50)) == "not an e-mail, looks like a PNG image"


@pytest.mark.parametrize("depth", [3, 5_000])
def test_nested_parts(read_bytes: Read, refusal: Refusal, depth: int) -> None:
    heads = (f'Content-Type: multipart/mixed; boundary="b{n}"\n\n--b{n}\n' for n in range(depth))
    raw = f"Subject: deep\n{''.join(heads)}\ntext\n"
    if depth == 3:
        assert read_bytes("a.eml", raw).text == "deep\n\ntext"
    else:
        assert refusal("a.eml", raw) == "a message with too many parts"


def test_encoded_word_is_read_in_its_charset() -> None:
    word = base64.b64encode("Привет из Москвы".encode("koi8-r")).decode()
    assert _word_text(f"=?koi8-r?b?{word}?=") == "Привет из Москвы"


def test_attached_messages_and_texts_follow(read_bytes: Read) -> None:
    inner = message("Lease", "The notice period is 45 days.\n")
    inner.add_attachment("a;b", subtype="csv", filename="list.csv")
    mail = message("Fwd", "See below.\n")
    mail.add_attachment(inner)
    mail.add_attachment("Second part.\n", disposition="inline")
    mail.add_attachment("<p>Page</p>", subtype="html", filename="page.html")
    mail.add_attachment(b"\x89PNG", maintype="image", subtype="png", filename="x.png")
    document = read_bytes("a.eml", mail.as_bytes())
    for text in ("See below.", "The notice period is 45 days.", "a;b", "Second part.", "Page"):
        assert text in document.text
    assert document.text.endswith("Attachments: x.png")
    # the text after an attachment belongs to the message again
    assert outline(document) == [(1, "Fwd"), (2, "Lease"), (3, "list.csv"), (1, "Fwd"), (2, "page.html"), (1, "Fwd")]


def test_an_empty_form_of_a_text_gives_way_to_the_other(read_bytes: Read) -> None:
    mail = message(body=" \n")
    mail.add_alternative("<p>rich</p>", subtype="html")
    assert read_bytes("a.eml", mail.as_bytes()).text.endswith("rich")


@pytest.mark.parametrize("content", [b"Subject: In\n\nInner text.\n", b"\xff"])
def test_an_attached_message_that_is_encoded_against_the_standard(read_bytes: Read, content: bytes) -> None:
    head = 'Subject: Out\nContent-Type: multipart/mixed; boundary="b"\n\n--b\n\nOuter.\n--b\n'
    part = f"Content-Type: message/rfc822\nContent-Transfer-Encoding: base64\n\n{base64.b64encode(content).decode()}\n--b--\n"
    document = read_bytes("a.eml", head + part)
    assert "Outer." in document.text and ("Inner text." in document.text) == (b"Inner" in content)
