"""Lighter formats: headings, paragraphs, lists and code come out as Markdown."""

from __future__ import annotations

import pytest
from tests.readers.documents import Read, outline

ADOC = """= Guide
:toc:

// a comment
See link:x.html[the list], https://x.org[a site] and a[0].footnote:[Really.]

== Parts
* valve
** seat
. first

.Settings
[source,ini]
----
== no heading
----
"""
ORG = """#+TITLE: Guide
# a comment
* TODO Parts :tag:
:PROPERTIES:
:ID: 1
:END:
- See [[x.org][the list]]
#+begin_src sh
* no heading
#+end_src
"""
TEX = r"""\documentclass{article} % x
\title{Guide}
\begin{document}
\maketitle
Poincar\'e saw \textbf{one \emph{thing}}~\cite{x} at 5\% of $x^2$. % no
\section{Parts}\label{p}
\begin{itemize}
\item valve
\end{itemize}
\begin{verbatim}
\section{no heading}
\end{verbatim}
\end{document}
"""
MAN = r""".\" a comment
.TH GUIDE 1 "2020"
.de URL
..
.SH PARTS
.B valve
\fIfile\fR \- opens
.TP
\-x
closes
.nf
.SH no heading
.fi
"""
MDX = """import Tabs from '@theme/Tabs'

# Guide

<Tabs>
{/* a comment */}
## Parts

```js
import x from 'y'
```
</Tabs>
"""
VTT = """WEBVTT - Talk

NOTE a comment

1
00:00:01.000 --> 00:00:03.000 align:start
<v Ann>We open

00:03.000 --> 00:04.000
at <b>nine</b>.

00:05.000 --> 00:06.000
Good.
"""
SRT = "1\n00:00:01,000 --> 00:00:02,000\nWe open\n\n2\n00:00:03,000 --> 00:00:04,000\nat nine.\n"


@pytest.mark.parametrize(
    ("name", "source", "text"),
    [
        (
            "a.adoc",
            ADOC,
            "# Guide\n\nSee the list, a site and a[0]. (Really.)\n\n## Parts\n\n- valve\n  - seat\n1. first\n\nSettings\n\n"
            "```\n== no heading\n```",
        ),
        ("a.org", ORG, "# Guide\n\n# Parts\n\n- See the list\n\n```\n* no heading\n```"),
        (
            "a.tex",
            TEX,
            "# Guide\n\nPoincaré saw one thing  at 5% of $x^2$. \n\n## Parts\n\n- valve\n\n```\n\\section{no heading}\n```",
        ),
        ("a.1", MAN, "# GUIDE\n\n## PARTS\n\nvalve\nfile - opens\n\n-x\ncloses\n\n```\n.SH no heading\n```"),
        ("a.mdx", MDX, "# Guide\n\n## Parts\n\n```\nimport x from 'y'\n```"),
        ("a.vtt", VTT, "Ann: We open\nat nine.\n\nGood."),
        ("a.srt", SRT, "We open\nat nine."),
        ("app.log.1", "Plain. It is no manual page.\n", "Plain. It is no manual page.\n"),
    ],
)
def test_a_format(read_bytes: Read, name: str, source: str, text: str) -> None:
    document = read_bytes(name, source)
    assert document.text == text
    headings = [title for _, title in outline(document)]
    assert "no heading" not in headings
    assert [title.casefold() for title in headings] in (["guide", "parts"], [])


@pytest.mark.parametrize(
    ("name", "source", "text"),
    [
        (
            "a.adoc",
            "CPU:: The brain.\nRAM::\n  The memory of `Foo::Bar`.\n",
            "CPU\n: The brain.\nRAM\n: The memory of `Foo::Bar`.",
        ),
        (
            "a.1",
            '.TH A 1\n.SH USE\n.TS\nallbox;\nl l.\nHUP\tT{\nRead the\nsettings\nT}\n.TE\n.BR \\-v , " \\-\\-verbose"\n',
            "# A\n\n## USE\n\nHUP\tRead the\nsettings\n\n-v , --verbose",
        ),
        (
            "a.tex",
            "\\begin{tabular}{l|r}\n\\hline\nweb & 80 \\\\ \\hline\n\\end{tabular}\n"
            "\\begin{itemize}\n\\item\none\n\\end{itemize}\n"
            "\\href{http://x}{the site}\n",
            "web & 80 \\\\ \n\n- one\n\nthe site",
        ),
    ],
)
def test_definitions_tables_and_links_of_lighter_formats(read_bytes: Read, name: str, source: str, text: str) -> None:
    assert read_bytes(name, source).text == text
