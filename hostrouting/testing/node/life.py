"""A life: steps of the actors, drawn from a seed, and the shortest life that still breaks a law.

Here: when steps are taken, and how a failing life is shrunk. Not here: what a step does (`actors`), and the laws
(`machine`).

Each step has a seed of its own, so that it is the same step if others are left out. Lives differ in more than their
steps, so that what is rare in one is common in another: each draws which actors it has, how often each act comes, a
part of its time in which mishaps are frequent, and a few of the configurations. A mishap is followed by an act of the
agent at once, because it strikes what hostrouting does next. Of the other steps, half follow the one before at once or
within seconds, and half come hours later. Every tenth step is a rest: faults end, each actor brings back what the
node needs, and after the promised time the laws of a node at rest are asserted.
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
_RESTS = 0.1  # the part of the steps that are rests
_ABSENT = 0.3  # the part of lives in which an actor does nothing
_OFTEN = (0.2, 1.0, 1.0, 3.0)  # by how much an act may be more frequent
_PAIRS = 0.4  # how often one more act of the agent follows at once
_STORM = (0.4, 4.0)  # how frequent mishaps are outside and inside of a third of the time
_FAVOURITES = 3  # configurations of one life
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
            shortest, last = self._shrunk([step for step in steps if step.at <= broken.at], broken)
            head = f"seed {self.seed}, shrunk from {len(steps):,} steps to {len(shortest)}"
            raise BrokenLaw(f"{head}; {last.law}", last.told, last.story[-_SHOWN:], last.at) from last.__cause__

    def play(self, steps: Sequence[Step]) -> Node:
        """Live through these steps."""
        node = self.make()
        node.acts = tuple(self.acts())
        node.boot()
        chance = Random(self.seed)  # noqa: S311  not a secret
        node.favourites = chance.sample(node.configs, min(len(node.configs), _FAVOURITES))
        node.wanted = node.favourites[0]
        node.after(1.0, lambda: node.apply(node.wanted))
        for step in steps:
            node.after(step.at, partial(_take, node, step))
        try:
            node.live((steps[-1].at if steps else 0.0) + 2 * PROMISED)
        except BrokenLaw:
            raise
        except Exception as error:
            law = "no run ends with a programming error"
            raise BrokenLaw(law, f"{type(error).__name__}: {error}", node.story, node.now) from error
        return node

    def _draw(self, days: float) -> list[Step]:
        chance = Random(self.seed)  # noqa: S311  not a secret
        acts, end, pause = self.acts(), days * _DAY, 2 * _DAY / self.steps_a_day
        others = dict.fromkeys(act.who for act in acts if act.disturbs)
        absent = {who for who in others if chance.random() < _ABSENT}
        often = [0.0 if act.who in absent or act.at != "step" else act.weight * chance.choice(_OFTEN) for act in acts]
        storm = chance.uniform(0.0, end)
        steps, at, then = list[Step](), 0.0, ""
        while (at := at + _pause(chance, pause, is_at_once=bool(then or not steps))) < end:
            in_storm = storm <= at <= storm + end / 3
            weights = [
                weight * (1.0 if act.disturbs or not act.then else _STORM[in_storm])
                if f"{act.who} {act.what}".startswith(then)
                else 0.0
                for act, weight in zip(acts, often, strict=True)
            ]
            is_rest = then == "rest" or (not then and chance.random() < _RESTS)
            act = _REST if is_rest or not any(weights) else chance.choices(range(len(acts)), weights)[0]
            steps.append(Step(at, act, chance.getrandbits(32)))
            then = "" if act == _REST else acts[act].then or (then if chance.random() < _PAIRS else "")
            at += 2 * PROMISED if act == _REST else 0.0
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


def _pause(chance: Random, pause: float, *, is_at_once: bool) -> float:
    """The seconds until the next step."""
    if is_at_once or (kind := chance.random()) < 0.2:
        return 0.0
    return chance.expovariate(0.5 if kind < 0.5 else 1 / pause)


def _take(node: Node, step: Step) -> None:
    if step.act == _REST:
        node.rest()
    else:
        node.act(node.acts[step.act], Random(step.seed))  # noqa: S311  not a secret
