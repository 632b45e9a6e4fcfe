"""The learning curve as a picture: the loss of each step, and the held-out KL after each epoch."""

from __future__ import annotations

from mergewise.designs.aed.training.trainer import History
from mergewise.page.curves import Curve, CurveFigure, CurvePoint, figure_svg


def svg(history: History, title: str) -> str:
    """Draw an SVG file. Both lines are the KL of Eq. 9, in nats. The first held-out point is the untrained network."""
    steps = len(history.losses)
    epoch = steps / len(history.held_out) if history.held_out else steps
    learnt = [(number + 1.0, value) for number, value in enumerate(history.losses)]
    begun = [] if history.untrained is None else [(0.0, history.untrained)]
    held_out = [*begun, *(((number + 1) * epoch, value) for number, value in enumerate(history.held_out))]
    curves = tuple(
        Curve(name, tuple(CurvePoint(x, y, y, y) for x, y in line))
        for name, line in {"loss of a step": learnt, "held out": held_out}.items()
        if line
    )
    return f"{figure_svg(CurveFigure(title, 'steps', f'{title}: KL in nats', curves), is_file=True)}\n"
