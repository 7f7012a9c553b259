"""The rewrite of probes: what it costs to find that nothing is to be done, to apply it, and each packet that is none.

Everything here happens between three private network namespaces (`tests.support.balancer`).
"""

import shutil
import socket
import statistics
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from hostrouting.boot.probe import TABLE
from tests.benchmarks.contest import Contest, Goal, LeftOut
from tests.benchmarks.turns import in_turn, timed
from tests.support.balancer import GLOBAL, OWN_GLOBAL, POD, Lab, laboratory, nft, open_socket, ping
from tests.support.rewriting import Rewriting, rules

__all__ = ["probe_rewrite_contests"]

_WORK, _TASK = "the rewrite of probes", "RewriteProbeSource"
_RULES = rules()
_PACKETS = 2_000
# So few on the way at a time that no queue between the hosts overflows.
_BURST = 100
# The same hooks, and nothing to do in them: what no rewrite can cost less than.
_EMPTY = "".join(line for line in _RULES.splitlines(keepends=True) if "comment" not in line)


def probe_rewrite_contests() -> Iterator[Contest | LeftOut]:
    """All contests of the probe rewrite."""
    if not shutil.which("nft"):
        yield LeftOut(_WORK, "there is no `nft` here")
        return
    with laboratory() as lab:
        rewriting = Rewriting(lab.node)
        rewriting.apply()
        yield _plan(lab, rewriting)
        yield _apply(lab, rewriting)
        yield _forward(lab)


def _plan(lab: Lab, rewriting: Rewriting) -> Contest:
    """All is as it should be: what it takes to know that, beside what nft takes to list the table."""

    def plan() -> None:
        if not rewriting.plan().is_empty:
            raise RuntimeError("there was something to do")

    def listing() -> None:
        lab.node.run("nft", "list", "table", "ip6", TABLE)

    methods = {f"{_TASK}.plan": plan, "nft list table": listing}
    return Contest(f"{_WORK}: plan, nothing to do", in_turn(methods, rounds=30))


def _apply(lab: Lab, rewriting: Rewriting) -> Contest:
    """From nothing to rules and route in force, read back and judged; beside it what only puts them there."""

    def blindly() -> None:
        nft(lab.node, _RULES)
        lab.node.batch([f"route add {GLOBAL}/128 dev eth0 proto 213"])

    methods = {_TASK: rewriting.apply, "nft -f and ip route add": blindly}
    return Contest(f"{_WORK}: apply", in_turn(methods, rounds=30, before=rewriting.remove))


def _forward(lab: Lab) -> Contest:
    """A packet that is not a probe passes all chains: the node forwards it with the rewrite, and without."""
    ours, empty, bare = "with the rewrite", "with two empty chains", "without"
    with _sender(lab) as send:
        methods = {name: _under(lab, text, send) for name, text in ((ours, _RULES), (empty, _EMPTY), (bare, ""))}
        times = in_turn(methods, rounds=100, seconds=10)
    rates = {name: _PACKETS / statistics.median(took) for name, took in times.items()}
    said = ", ".join(f"{rate:,.0f} {name}" for name, rate in rates.items())
    work = f"{_WORK}: forward {_PACKETS:,} small datagrams"
    # No goal: the rounds of one method differ by more than the chains cost.
    goals = (Goal(ours, None, bare), Goal(empty, None, bare))
    return Contest(work, times, goals, notes=(f"packets a second: {said}",))


@contextmanager
def _sender(lab: Lab) -> Iterator[Callable[[], float]]:
    """A function that sends datagrams to the pod and returns the seconds; each is processed while it is sent."""
    with (
        open_socket(lab.pod, socket.SOCK_DGRAM, POD, port=9) as sink,
        open_socket(lab.balancer, socket.SOCK_DGRAM, OWN_GLOBAL) as sender,
    ):
        # Nobody reads them: the queue is soon full, and what comes then is dropped at the pod.
        sink.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        sender.connect((POD, 9))
        ping(lab.balancer, OWN_GLOBAL, POD)

        def send() -> float:
            before, bursts = lab.forwarded(), []
            for _ in range(_PACKETS // _BURST):
                bursts.append(timed(burst))
                lab.settled()
            if lab.forwarded() - before != _PACKETS:
                raise RuntimeError("a datagram was lost")
            # The median burst stands for all: in some of them the machine did something else.
            return statistics.median(bursts) * len(bursts)

        def burst() -> None:
            for _ in range(_BURST):
                sender.send(b"datagram")

        yield send


def _under(lab: Lab, text: str, send: Callable[[], float]) -> Callable[[], float]:
    def forward() -> float:
        nft(lab.node, f"add table ip6 {TABLE}\ndelete table ip6 {TABLE}\n{text}")
        return send()

    return forward
