"""The learning curve as a picture: the loss of each step, and what the held-out questions said after each epoch."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from mergewise.designs.aed.training.trainer import History

WIDTH, HEIGHT = 640, 320
LEFT, RIGHT, TOP, BOTTOM = 56, 16, 36, 40
TICKS = 4
LEARNT, HELD_OUT, INK, GRID = "#4477aa", "#cc6677", "#333333", "#dddddd"

Point = tuple[float, float]


def svg(history: History, title: str) -> str:
    """Draw one SVG file, with axes from 0. Both lines are the KL of Eq. 9, in nats.

    The first held-out point is the untrained network's.
    """
    steps = len(history.losses)
    epoch = steps / len(history.held_out) if history.held_out else steps
    learnt = [(number + 1.0, value) for number, value in enumerate(history.losses)]
    begun = [] if history.untrained is None else [(0.0, history.untrained)]
    held_out = [*begun, *(((number + 1) * epoch, value) for number, value in enumerate(history.held_out))]
    lines = {"loss of a step": (LEARNT, learnt), "held out": (HELD_OUT, held_out)}
    widest = max((x for x, _ in (*learnt, *held_out)), default=1.0) or 1.0
    highest = max((y for _, y in (*learnt, *held_out)), default=1.0) or 1.0

    def place(point: Point) -> Point:
        x = LEFT + (WIDTH - LEFT - RIGHT) * point[0] / widest
        return x, HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * point[1] / highest

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="11">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        _text(LEFT, 18, title, size=13),
    ]
    for tick in range(TICKS + 1):
        share = tick / TICKS
        (x, _), (_, y) = place((share * widest, 0)), place((0, share * highest))
        parts += [_line([(LEFT, y), (WIDTH - RIGHT, y)], GRID), _text(LEFT - 6, y + 4, f"{share * highest:.3g}", "end")]
        parts.append(_text(x, HEIGHT - BOTTOM + 16, f"{share * widest:.4g}", "middle"))
    parts.append(_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, "steps", "middle"))
    for number, (name, (colour, line)) in enumerate(lines.items()):
        placed = [place(point) for point in line]
        parts += [_line(placed, colour, 2), *(_dot(point, colour) for point in placed if len(line) <= 2 * WIDTH // 10)]
        parts.append(_text(WIDTH - RIGHT, TOP + 14 * number, name, "end", colour))
    return "\n".join([*parts, "</svg>", ""])


def _line(points: Iterable[Point], colour: str, width: int = 1) -> str:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width}"/>'


def _dot(point: Point, colour: str) -> str:
    return f'<circle cx="{point[0]:.1f}" cy="{point[1]:.1f}" r="2.5" fill="{colour}"/>'


def _text(x: float, y: float, text: str, anchor: str = "start", colour: str = INK, size: int = 11) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" fill="{colour}">{escape(text)}</text>'
    )
