"""A life: steps of the actors, drawn from a seed, and the shortest life that still breaks a law.

Here: when steps are taken, and how a failing life is shrunk. Not here: what a step does (`actors`), and the laws
(`machine`).

Each step has a seed of its own, so that it is the same step if others are left out. Half of the steps follow the one
before at once, within seconds; the others come hours later. About every twentieth step is a rest: faults end, each
actor brings back what the node needs, and after the promised time the laws of a node at rest are asserted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from random import Random

import attrs

from hostrouting.testing.node.actors import ADMINISTRATOR, AGENT, FABRIC, MISHAPS, Act, networkd
from hostrouting.testing.node.machine import PROMISED, BrokenLaw, Node

_DAY = 86_400.0
_REST = -1
_SHOWN = 30  # lines of a story
_TRIALS = 300  # lives that are tried to shrink one


@attrs.frozen
class Step:
    """One step: when, which act, and the seed of every chance in it."""

    at: float
    act: int
    seed: int


@attrs.frozen
class Life:
    """A life of a node. The same seed gives the same life."""

    make: Callable[[], Node]
    """Makes the node, with its configurations and its pipeline."""
    acts: Callable[[], Sequence[Act]] = attrs.field(
        default=lambda: (*networkd(), *FABRIC, *ADMINISTRATOR, *AGENT, *MISHAPS)
    )
    """Makes the acts of all actors."""
    seed: int = attrs.field(default=0, kw_only=True)
    steps_a_day: float = attrs.field(default=12.0, kw_only=True)

    def live(self, days: float) -> Node:
        """Live for so many days, and return the node. Raises BrokenLaw with a story of at most 30 lines."""
        steps = self._draw(days)
        try:
            return self.play(steps)
        except BrokenLaw as broken:
            shortest, last = self._shrunk([step for step in steps if step.at <= broken.story[-1].at], broken)
            head = f"seed {self.seed}, shrunk from {len(steps):,} steps to {len(shortest)}"
            raise BrokenLaw(f"{head}; {last.law}", last.told, last.story[-_SHOWN:]) from last.__cause__

    def play(self, steps: Sequence[Step]) -> Node:
        """Live through these steps."""
        node = self.make()
        node.acts = tuple(self.acts())
        node.boot()
        node.after(1.0, lambda: node.apply(node.wanted))
        for step in steps:
            node.after(step.at, partial(_take, node, step))
        try:
            node.live((steps[-1].at if steps else 0.0) + 2 * PROMISED)
        except BrokenLaw:
            raise
        except Exception as error:
            raise BrokenLaw(
                "no run ends with a programming error", f"{type(error).__name__}: {error}", node.story
            ) from error
        return node

    def _draw(self, days: float) -> list[Step]:
        chance = Random(self.seed)  # noqa: S311  not a secret
        weights = [act.weight if act.at == "step" else 0 for act in self.acts()]
        pause = 2 * _DAY / self.steps_a_day
        steps, at = list[Step](), 60.0
        while (
            at := at + (chance.expovariate(0.5) if chance.random() < 0.5 else chance.expovariate(1 / pause))
        ) < days * _DAY:
            is_rest = chance.random() < 0.05
            act = _REST if is_rest else chance.choices(range(len(weights)), weights)[0]
            steps.append(Step(at, act, chance.getrandbits(32)))
            at += 2 * PROMISED if is_rest else 0.0
        return [*steps, Step(at, _REST, 0)]

    def _shrunk(self, steps: list[Step], broken: BrokenLaw) -> tuple[list[Step], BrokenLaw]:
        """The steps without those that the broken law does not need; long runs are tried first."""
        left, length = _TRIALS, max(1, len(steps) // 2)
        while left and length:
            at, is_shorter = 0, False
            while left and at < len(steps):
                fewer, left = steps[:at] + steps[at + length :], left - 1
                try:
                    self.play(fewer)
                except BrokenLaw as other:
                    if other.law == broken.law:
                        steps, broken, is_shorter = fewer, other, True
                        continue
                at += length
            length = length if is_shorter and length == 1 else length // 2
        return steps, broken


def _take(node: Node, step: Step) -> None:
    if step.act == _REST:
        node.rest()
    else:
        node.act(node.acts[step.act], Random(step.seed))  # noqa: S311  not a secret
