"""Curves as SVG without a plotting library: a metric over tokens, with bands and a name at the end of each line."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, floor, log10
from typing import NamedTuple

from mergewise.page.markup import Markup, shorten, tag
from mergewise.types import frozen

WIDTH, HEIGHT = 640, 380
LEFT, RIGHT, TOP, BOTTOM = 48, 186, 30, 46
COLOURED = 7
"""Number of coloured lines, the best ones. The rest are grey."""
BANDS = 2
"""Number of the best lines with a band, besides the reference."""
GREY = "cx"
LINE = 15
"""Smallest distance of two names in pixels."""
NAME = 26
"""Longest name in characters."""
DOTS = 128
"""Largest number of points drawn as dots. A curve with more points is a line only."""
STYLE = """
svg { font: 12px ui-sans-serif, system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", Arial, sans-serif; background: #fff; }
""" + "".join(
    f".c{number} {{ --c: {colour}; }}\n"
    for number, colour in enumerate(("#1f5f9e", "#b4541a", "#1a7f66", "#7650c7", "#bd3f63", "#8a6d00", "#17788c"))
)
"""Styles for a separate SVG file. On a page the style sheet has them."""
CURVE_RULES = """
.cx { --c: var(--faint, #8b8f96); }
.grid { stroke: var(--line, #e3dfd7); } .axis { fill: var(--soft, #5b616a); }
.line { fill: none; stroke: var(--c); stroke-width: 2; stroke-linejoin: round; } .cx .line { stroke-width: 1; opacity: .55; }
.band { fill: var(--c); opacity: .12; } .dot { fill: var(--c); } .cx .dot { opacity: .55; }
.lead { stroke: var(--c); opacity: .4; } .end { fill: var(--c); } .cx .end { opacity: .9; } .reference .end { font-weight: 650; }
"""


@frozen
class CurvePoint:
    """A point with the interval of `y`, and the budget behind `x` if there is one."""

    x: float
    y: float
    low: float
    high: float
    budget: int | None = None


@frozen
class Curve:
    name: str
    points: tuple[CurvePoint, ...]


@frozen
class CurveFigure:
    """Curves with a title and the labels of both axes. The curve named `reference` always has a colour."""

    title: str
    x_label: str
    y_label: str
    curves: tuple[Curve, ...]
    reference: str = ""


class _Scale(NamedTuple):
    """A linear map from values to pixels: `start` maps to `low`, `end` to `high`."""

    start: float
    end: float
    low: float
    high: float

    def __call__(self, value: float) -> float:
        return round(self.low + (value - self.start) / (self.end - self.start) * (self.high - self.low), 1)


def figure_svg(figure: CurveFigure, is_file: bool = False) -> Markup:
    """Draw the figure as an `svg` element. A file includes its styles."""
    points = [point for curve in figure.curves for point in curve.points] or [CurvePoint(0.0, 0.0, 0.0, 0.0)]
    end = max(p.x for p in points)
    xs = _ticks(min(p.x for p in points), end)
    ys = _ticks(min(p.low for p in points), max(p.high for p in points))
    xs = [x for x in xs if x <= end] if end > xs[0] else xs
    across = _Scale(xs[0], max(end, xs[-1]), LEFT, WIDTH - RIGHT)
    upwards = _Scale(ys[0], ys[-1], HEIGHT - BOTTOM, TOP)
    classes = _classes(figure)
    ordered = sorted(figure.curves, key=lambda curve: (classes[curve.name] != GREY, curve.points[-1].y))
    banded = {curve.name for curve in ordered[-BANDS:]} | {figure.reference}
    drawn = [_curve(curve, classes[curve.name], across, upwards, curve.name in banded) for curve in ordered]
    below = _axis_text(figure.x_label, (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, text_anchor="middle")
    grid: list[Markup] = []
    for y in ys:
        grid.append(tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=upwards(y), y2=upwards(y), class_="grid"))
        grid.append(_axis_text(_figure_of(y), LEFT - 8, upwards(y) + 4, text_anchor="end"))
    for x in xs:
        grid.append(tag("line", x1=across(x), x2=across(x), y1=HEIGHT - BOTTOM, y2=HEIGHT - BOTTOM + 4, class_="grid"))
        grid.append(_axis_text(_figure_of(x), across(x), HEIGHT - BOTTOM + 18, text_anchor="middle"))
    axes = [tag("g", *grid), below, _axis_text(figure.y_label, LEFT - 40, TOP - 14)]
    style = tag("style", Markup(STYLE + CURVE_RULES)) if is_file else None
    names = _names(figure, classes, upwards, across)
    title = tag("title", f"{figure.title}: {figure.y_label} over {figure.x_label}")
    attributes = {"viewBox": f"0 0 {WIDTH} {HEIGHT}", "role": "img", "class_": "curves"}
    attributes |= {"xmlns": "http://www.w3.org/2000/svg"} if is_file else {}
    return tag("svg", style, title, *axes, *drawn, *names, **attributes)


def _classes(figure: CurveFigure) -> dict[str, str]:
    """Assign colour classes to the reference and to the curves with the highest last values. The rest are grey."""
    best = sorted(figure.curves, key=lambda curve: (curve.name != figure.reference, -curve.points[-1].y))[:COLOURED]
    coloured = {curve.name for curve in best}
    order = [curve.name for curve in figure.curves if curve.name in coloured]
    return {curve.name: f"c{order.index(curve.name)}" if curve.name in coloured else GREY for curve in figure.curves}


def _ticks(low: float, high: float) -> list[float]:
    """Return four to eight round numbers that enclose both ends."""
    if high - low < 1e-9:
        low, high = low - 0.5, high + 0.5
    rough = (high - low) / 5
    size = 10.0 ** floor(log10(rough))
    step = next(size * factor for factor in (1, 2, 2.5, 5, 10) if size * factor >= rough)
    first, last = floor(low / step + 1e-9), ceil(high / step - 1e-9)
    return [round(step * number, 10) for number in range(first, last + 1)]


def _figure_of(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 10 or value == int(value) else f"{value:.3g}"


def _axis_text(words: str, x: float, y: float, **more: object) -> Markup:
    return tag("text", words, x=x, y=y, **more, class_="axis")


def _curve(curve: Curve, colour: str, across: _Scale, upwards: _Scale, has_band: bool) -> Markup:
    places = [(across(point.x), upwards(point.y)) for point in curve.points]
    parts: list[Markup] = []
    if len(places) > 1:
        if has_band and any(point.low < point.high for point in curve.points):
            upper = [f"{across(point.x)},{upwards(point.high)}" for point in curve.points]
            lower = [f"{across(point.x)},{upwards(point.low)}" for point in reversed(curve.points)]
            parts.append(tag("polygon", points=" ".join((*upper, *lower)), class_="band"))
        parts.append(tag("polyline", points=" ".join(f"{x},{y}" for x, y in places), class_="line"))
    if len(places) <= DOTS:
        for point, (x, y) in zip(curve.points, places, strict=True):
            if point.budget is None:
                about = f"{curve.name} at {point.x:,.0f}: {point.y:.3f}"
            else:
                interval = f"{point.low:.3f} to {point.high:.3f}"
                about = f"{curve.name} at {point.budget:,}: {point.y:.3f} ({interval}), {point.x:,.0f} tokens"
            parts.append(tag("circle", tag("title", about), cx=x, cy=y, r=3, class_="dot"))
    return tag("g", *parts, class_=colour)


def _names(figure: CurveFigure, classes: dict[str, str], upwards: _Scale, across: _Scale) -> list[Markup]:
    """Draw the names at the ends of the curves without overlaps, from top to bottom. Curves beyond the room get no name."""
    room = int((HEIGHT - BOTTOM - TOP) // LINE) + 1
    ends = sorted(figure.curves, key=lambda curve: (classes[curve.name] == GREY, -curve.points[-1].y))[:room]
    ends.sort(key=lambda curve: -curve.points[-1].y)
    wanted = [upwards(curve.points[-1].y) for curve in ends]
    places = _spread(wanted, TOP, HEIGHT - BOTTOM)
    names = []
    for curve, y, natural in zip(ends, places, wanted, strict=True):
        lead = tag("line", x1=across(curve.points[-1].x) + 5, y1=natural, x2=WIDTH - RIGHT + 12, y2=y, class_="lead")
        name = tag(
            "text", shorten(curve.name, NAME), tag("title", curve.name), x=WIDTH - RIGHT + 16, y=y + 4, class_="end"
        )
        reference = " reference" if curve.name == figure.reference else ""
        names.append(tag("g", lead, name, class_=classes[curve.name] + reference))
    return names


def _spread(wanted: Sequence[float], top: float, bottom: float) -> list[float]:
    """Move positions apart to at least a line's height, in the same order and close to the wanted ones."""
    places: list[float] = []
    for y in wanted:
        places.append(max(y, places[-1] + LINE) if places else y)
    end = bottom
    for number in range(len(places) - 1, -1, -1):
        places[number] = max(top, min(places[number], end))
        end = places[number] - LINE
    return places
