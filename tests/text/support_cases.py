"""Sentences that a model might write from a passage: true ones that should pass, and lies that should be caught.

`TUNED` was at hand while the rules were written, `HELD_OUT` was written beside it and looked at once they stood.
"""

from __future__ import annotations

from typing import NamedTuple


class Case(NamedTuple):
    """A passage, the title above it, sentences that it supports, and sentences that it does not."""

    title: str
    passage: str
    true: tuple[str, ...]
    lies: tuple[str, ...]


TUNED = (
    Case(
        "Norrby Mill",
        "The mill was built by Ella Stone, a mason from Bergen, between 1848 and 1850. It has two wheels and five stones, and "
        "could grind about 1,200 kilograms of rye a day. It was never sold. Her brother Per kept the books until he died on "
        "14 March 1871.",
        (
            "Ella Stone, a mason from Bergen, built Norrby Mill between 1848 and 1850.",
            "Norrby Mill was never sold.",
            "The mill has 2 wheels and 5 stones.",
            "Norrby Mill could grind roughly 1200 kg of rye a day.",
            "Per, the brother of Ella Stone, kept the books of the mill until he died in March 1871.",
            "Per, who kept the books, died on March 14, 1871.",
            "The mill was built by Ella Stone, who came from Bergen.",
            "With its two wheels and five stones the mill could grind 1,200 kilograms of rye a day.",
        ),
        (
            "Ella Stone, a mason from Oslo, built Norrby Mill between 1848 and 1850.",
            "Norrby Mill was sold.",
            "The mill has 2 wheels and 7 stones.",
            "Norrby Mill could grind roughly 12,000 kg of rye a day.",
            "Per, the brother of Ella Stone, kept the books of the mill until he died in May 1871.",
            "Per kept the books until he died on 14 March 1917.",
            "Per Nilsson, the brother of Ella Stone, kept the books.",
            "Napoleon visited the mill.",
            "The mill was built by Ella Stone, and the miller grew rich by selling bread to travellers.",
            "The mill was not built by Ella Stone.",
        ),
    ),
    Case(
        "Treatment of fever",
        "In a randomised trial with 412 patients, Zelatan reduced the length of fever by 1.5 days on "
        "average (95% CI 0.9 to 2.1). "
        "The drug did not reduce mortality. Nausea was more common in the treated group, at twelve percent against four percent. "
        "Children under six were excluded.",
        (
            "Zelatan shortened fever by an average of 1.5 days in a randomised trial with 412 patients.",
            "Zelatan did not reduce mortality.",
            "In the trial, nausea was more common among treated patients, at 12% against 4%.",
            "Children under 6 were excluded from the randomised trial.",
            "The drug had no effect that would reduce mortality.",
            "Nausea was common in the group treated with Zelatan, at 12 percent.",
        ),
        (
            "Zelatan shortened fever by an average of 2.5 days in a randomised trial with 412 patients.",
            "Zelatan reduced mortality.",
            "In the trial, nausea was more common among treated patients, at 12% against 8%.",
            "Children under 16 were excluded from the randomised trial.",
            "The drug increased the length of fever by 1.5 days on average.",
            "In a randomised trial with 421 patients, Zelatan reduced the length of fever.",
            "Children under six were included.",
            "The trial of Zelatan was paid for by Pfizer.",
        ),
    ),
    Case(
        "httpkit › Timeouts",
        "`Client(timeout=5.0)` sets the timeout of all requests, in seconds. The default is five seconds. "
        "Pass `None` to wait without "
        "limit. A request that takes longer raises `ReadTimeout`. Retries are off by default; turn them on with `retries=3`.",
        (
            "In httpkit, the default timeout of all requests is 5 seconds.",
            "A request that takes longer than the timeout raises ReadTimeout.",
            "Retries are off by default in httpkit, and are turned on with retries=3.",
            "Passing None makes the client wait without limit.",
            "The timeout is set in seconds with Client(timeout=5.0).",
        ),
        (
            "In httpkit, the default timeout of all requests is 10 seconds.",
            "A request that takes longer than the timeout raises ConnectTimeout.",
            "Retries are on by default in httpkit, and are turned off with retries=0.",
            "The timeout is set in milliseconds with Client(timeout=5000).",
            "Version 2.1 of httpkit introduced the timeout of all requests.",
        ),
    ),
    Case(
        "Aldermoor",
        "Aldermoor is a market town in northern Wessex with a population of 23,400 (2011 census). The World "
        "Wool Council has had its "
        "seat there since 1923. The town's canal, dug by Josiah Brand and Mary Holt, closed in 1957 and is now a park. "
        "The Danish painter Inger Lund lived in Aldermoor for eleven years.",
        (
            "Aldermoor, a market town in northern Wessex, has a population of 23,400 according to the 2011 census.",
            "The WWC has had its seat in Aldermoor since 1923.",
            "Josiah Brand and Mary Holt dug the canal of Aldermoor.",
            "The canal of the town closed in 1957, and it is a park now.",
            "Inger Lund, a painter from Denmark, lived for 11 years in Aldermoor.",
            "Aldermoor had twenty-three thousand four hundred people in its population in the census of 2011.",
        ),
        (
            "Aldermoor, a market town in southern Wessex, has a population of 23,400.",
            "The World Wool Council has had its seat in Aldermoor since 1932.",
            "Josiah Holt dug the canal of Aldermoor in 1801.",
            "The canal of the town closed in 1957 and was sold to the railway.",
            "Inger Lund, a painter from Norway, lived for 11 years in Aldermoor.",
            "Aldermoor has a population of 32,400.",
            "The town's canal, dug by Isambard Brunel, closed in 1957.",
        ),
    ),
    Case(
        "Solardach",
        "Die Gemeinde Tannberg ließ 2019 auf dem Dach der Schule eine Solaranlage mit 320 Modulen bauen. "
        "Sie liefert im Jahr rund "
        "98.000 Kilowattstunden. Geplant wurde die Anlage von Greta Hofer. Ein Speicher wurde nicht eingebaut.",
        (
            "Auf dem Dach der Schule ließ Tannberg 2019 eine Solaranlage mit 320 Modulen bauen.",
            "Die Solaranlage liefert rund 98 000 Kilowattstunden im Jahr.",
            "Greta Hofer plante die Solaranlage, und ein Speicher wurde nicht eingebaut.",
        ),
        (
            "Auf dem Dach der Schule ließ Tannberg 2021 eine Solaranlage mit 320 Modulen bauen.",
            "Die Solaranlage liefert rund 89 000 Kilowattstunden im Jahr.",
            "Geplant wurde die Anlage von Martin Bauer.",
            "Ein Speicher wurde eingebaut.",
        ),
    ),
    Case(
        "青い橋",
        "青い橋は1936年に田中工務店によって建てられた。長さは420メートルで、毎日およそ三千人が渡る。2004年に修理された。",
        (
            "青い橋は1936年に建てられた。",
            "青い橋の長さは420メートルである。",
            "毎日およそ3000人が青い橋を渡る。",
            "橋は2004年に修理された。",
        ),
        (
            "青い橋は1963年に建てられた。",
            "青い橋の長さは240メートルである。",
            "橋の設計者は有名な芸術家だったという説もある。",
        ),
    ),
)

HELD_OUT = (
    Case(
        "Harbour ferry",
        "The ferry Skarven carries up to 180 passengers between Lowen and the island of Tarn. From May to "
        "September it sails every "
        "thirty minutes; in winter there are six crossings a day. It was launched on 2 June 1998 and "
        "refitted in 2015 at a cost of "
        "$4.2 million. Bicycles travel free, but cars are not carried.",
        (
            "Skarven carries up to 180 passengers between Lowen and Tarn.",
            "In winter the ferry makes 6 crossings a day between Lowen and the island of Tarn.",
            "From May to September, the ferry Skarven sails every 30 minutes.",
            "The ferry was launched in June 1998 and refitted in 2015.",
            "The refit of the ferry in 2015 cost $4,200,000.",
            "Cars are not carried on the ferry Skarven, while bicycles travel free.",
            "Bicycles travel free of charge.",
            "The Skarven was launched on 1998-06-02.",
        ),
        (
            "Skarven carries up to 280 passengers between Lowen and Tarn.",
            "In winter the ferry makes 8 crossings a day between Lowen and the island of Tarn.",
            "From April to September, the ferry Skarven sails every 30 minutes.",
            "The ferry was launched in July 1998 and refitted in 2015.",
            "The refit of the ferry in 2015 cost $42 million.",
            "Cars are carried on the ferry Skarven, and bicycles travel free.",
            "Captain Olsen commands the ferry Skarven between Lowen and Tarn.",
            "The ferry was refitted in Gdansk in 2015.",
            "Passengers often complain about the food and the weather.",
            "Bicycles do not travel free.",
        ),
    ),
    Case(
        "Soil bacteria and drought",
        "Okafor et al. grew maize with and without the bacterium Azospira in 48 pots. After three weeks "
        "without water, inoculated "
        "plants had lost 18% of their leaf area and the controls 41%. Root length rose by a quarter. The effect was not seen in "
        "sandy soil. The authors warn that field conditions differ, and that only one maize variety, KM-7, was tested.",
        (
            "Okafor and colleagues grew maize in 48 pots, with and without the bacterium Azospira.",
            "Inoculated plants lost 18% of their leaf area after 3 weeks without water, against 41% for the controls.",
            "Root length increased by 25%, a rise of a quarter.",
            "The effect of the bacterium was not seen in sandy soil.",
            "Only one variety of maize, KM-7, was tested by Okafor et al.",
            "The authors warn that conditions in the field differ.",
        ),
        (
            "Okafor and colleagues grew wheat and barley in 84 pots.",
            "Inoculated plants lost 81% of their leaf area after 3 weeks without water.",
            "Root length fell by a quarter.",
            "The effect was seen in sandy soil.",
            "Only one variety of maize, KM-9, was tested by Okafor et al.",
            "The study of Okafor et al. appeared in Nature.",
            "After five weeks without water, inoculated plants had lost 18% of their leaf area.",
            "The bacterium is sold to farmers under a trade name and has become popular.",
        ),
    ),
    Case(
        "Queue settings",
        "`max_size` (default 1000) limits the jobs that wait. When it is reached, `put` blocks for at most "
        "`wait` seconds and then "
        "raises `Full`. Set `max_size=0` for no limit. Workers take jobs in the order in which they came, "
        "unless `priority=True`. "
        "Jobs are kept in Redis 6 or newer; SQLite is supported for tests only.",
        (
            "By default at most 1,000 jobs may wait, which max_size limits.",
            "Setting max_size to 0 means no limit.",
            "When max_size is reached, put blocks for at most wait seconds and then raises Full.",
            "Workers take jobs in the order in which they came, unless priority is True.",
            "Jobs are kept in Redis 6 or newer.",
        ),
        (
            "By default at most 10,000 jobs may wait, which max_size limits.",
            "When max_size is reached, put blocks and then raises QueueFull.",
            "Jobs are kept in Redis 5 or newer.",
            "Jobs are kept in PostgreSQL.",
            "SQLite is supported for production.",
            "SQLite is not supported for tests.",
        ),
    ),
    Case(
        "Amélie Roche",
        "Amélie Roche est née à Lyon le 3 avril 1902. Elle a dirigé le journal Le Phare pendant dix-sept "
        "ans. En 1938, elle a refusé "
        "la Légion d'honneur. Son roman, traduit en douze langues, s'est vendu à 250 000 exemplaires.",
        (
            "Amélie Roche est née le 3 avril 1902 à Lyon.",
            "Amélie Roche a dirigé Le Phare pendant dix-sept ans.",
            "Elle a refusé la Légion d'honneur en 1938.",
            "Son roman s'est vendu à 250.000 exemplaires.",
        ),
        (
            "Amélie Roche est née le 3 mai 1902 à Lyon.",
            "Amélie Roche est née à Marseille en 1902.",
            "Elle a refusé la Légion d'honneur en 1948.",
            "Son roman s'est vendu à 520 000 exemplaires.",
            "Elle n'a pas dirigé le journal Le Phare.",
        ),
    ),
    Case(
        "北山图书馆",
        "北山图书馆于1958年由市政府建立，现有藏书三十二万册。图书馆每周一闭馆。2016年，新馆在河东区开放，面积为1.8万平方米。",
        (
            "北山图书馆由市政府于1958年建立。",
            "图书馆现有藏书32万册。",
            "新馆2016年在河东区开放，面积18000平方米。",
            "图书馆周一闭馆。",
        ),
        (
            "北山图书馆由市政府于1985年建立。",
            "图书馆现有藏书52万册。",
            "新馆2019年在河东区开放。",
            "该馆以珍贵的古代地图和手稿闻名于世。",
        ),
    ),
)
