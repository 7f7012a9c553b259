"""From making the nodes to the last proof: what an operator does, step by step, and what has to be true after each step.

Every step runs the real commands: the line of docs/fleet.md that takes the snapshots, `hostrouting check --snapshots`,
and `hostrouting apply` on each node. The run ends with an error as soon as anything differs from what was broken.

Here: the steps. Not here: how a node is broken (`kinds`) and reached (`nodes`), and what the answers mean (`answers`).
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from ipaddress import ip_network
from typing import TYPE_CHECKING

import attrs

from hostrouting import HostRoutingConfig
from hostrouting import fleet as fleets
from tests.benchmarks.thousand_nodes.answers import Told, pasted_routes, require_equal, require_found, require_groups
from tests.benchmarks.thousand_nodes.kinds import CIDR
from tests.benchmarks.thousand_nodes.nodes import private_fleet
from tests.support.pages import page

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from hostrouting.fleet import NodeGroup, NodeResult
    from tests.benchmarks.thousand_nodes.answers import Document
    from tests.benchmarks.thousand_nodes.kinds import Plan
    from tests.benchmarks.thousand_nodes.nodes import Fleet, Node

__all__ = ["Escaped", "Figures", "in_batches", "tell_story"]

_ADDRESSES = 100  # random ones, for which the kernel of a node is asked
_SOUND = 100  # nodes that were never broken whose kernel is asked as well
_LIMIT = 3600.0  # seconds for what is done on all nodes
# The command itself. Its last line is the memory that it needed at most, and the same of the largest process that judged.
_CHECK = """\
import resource, sys
from hostrouting.cli import main
code = main()
own = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
sys.stderr.write(f"{own} {resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss}\\n")
sys.exit(code)
"""


class Escaped(Exception):  # noqa: N818  reads as what happened
    """A batch was not repaired. No further batch was begun."""


@attrs.frozen
class Figures:
    """The seconds of each step, in order; how many there are of each thing; and megabytes."""

    seconds: dict[str, float] = attrs.field(factory=dict)
    counts: dict[str, int] = attrs.field(factory=dict)
    megabytes: dict[str, float] = attrs.field(factory=dict)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Add the time of this block to a step."""
        begun = time.perf_counter()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - begun


def tell_story(
    plans: Sequence[Plan], folder: Path, *, at_once: int, batch: int, rng: random.Random, say: Callable[[str], object]
) -> Figures:
    """Make these nodes, and carry out every step. Raises Differs or Escaped."""
    figures = Figures()
    with ExitStack() as stack:
        with figures.step("make the nodes"):
            fleet = stack.enter_context(private_fleet(folder, plans, at_once=at_once))
        _Story(fleet, figures, batch=batch, rng=rng, say=say).tell()
    return figures


def in_batches(
    names: Sequence[str], size: int, *, repair: Callable[[Sequence[str]], Mapping[str, str]]
) -> Iterator[Sequence[str]]:
    """Repair so many nodes at a time, and yield each batch that is right then.

    `repair` returns what is still wrong after it, by node. Raises Escaped if anything is.
    """
    for at in range(0, len(names), size):
        chosen = names[at : at + size]
        if wrong := repair(chosen):
            told = "; ".join(f"{name}: {it}" for name, it in wrong.items())
            raise Escaped(f"{at} nodes were repaired; after the next {len(chosen)}, this is wrong: {told}")
        yield chosen


class _Story:
    """One run."""

    def __init__(
        self, fleet: Fleet, figures: Figures, *, batch: int, rng: random.Random, say: Callable[[str], object]
    ) -> None:
        self._fleet, self._figures, self._batch, self._rng, self._say = fleet, figures, batch, rng, say
        self._plans = {name: it.plan for name, it in fleet.nodes.items()}
        self._kinds = {name: it.kind for name, it in self._plans.items() if it.kind is not None}
        self._config = "agent.json"
        self._routes: dict[str, list[Document]] = {}
        """The static routes in the configuration of each node that has any."""

    def tell(self) -> None:
        """All steps."""
        step, folder = self._figures.step, self._fleet.folder
        (folder / self._config).write_text(json.dumps(_configuration(())))
        (folder / "snapshot.sh").write_text(self._answer("snapshot", "--script"))
        with step("break some of them"):
            self._break()
        with step("list all routes"):
            before = self._listed()
        with step("take snapshots of all"):
            self._take(self._plans, "nodes")
        with step("judge all"):
            found = self._checked("nodes")
        require_found(found, self._plans)
        with step("group all, and print the table"):
            groups, pasted = self._grouped("nodes")
        names = self._add_repairs(groups, pasted, found)
        with step("repair in batches"):
            for number, it in enumerate(in_batches(names, self._batch, repair=self._repair), start=1):
                self._say(f"batch {number}: {', '.join(it)}")
        with step("take snapshots of all again"):
            self._take(self._plans, "after")
        with step("judge all again"):
            after = self._checked("after")
        self._require_repaired(found, after, names)
        with step("ask the kernels"):
            self._ask_kernels(names)
        with step("list all routes again"):
            self._require_untouched(before, self._listed(), names)

    def _break(self) -> None:
        """Install what is to be installed before; then break what is to be broken."""
        for name, kind in self._kinds.items():
            if kind.installed:
                self._routes[name] = [{"destination": it} for it in kind.installed]
        require_equal("what fails when routes are installed", self._applied(list(self._routes)), {})
        self._fleet.each(lambda node: node.batch(node.plan.wrong.lines), self._kinds)
        kinds = Counter(it.name for it in self._kinds.values())
        self._figures.counts.update({"nodes": len(self._plans), "broken nodes": len(self._kinds), **kinds})
        told = "".join(f"\n  {count:>5} {name}" for name, count in kinds.items())
        self._say(f"{len(self._plans):,} nodes, and {len(self._kinds):,} are broken:{told}")

    def _listed(self) -> dict[str, str]:
        return self._fleet.each(lambda node: node.listed(), self._plans)

    def _take(self, names: Collection[str], where: str) -> None:
        """Take snapshots with the line of the page for operators; `enter` reaches a node, as `ssh` does there."""
        folder = self._fleet.folder
        (folder / where).mkdir()
        (folder / "names.txt").write_text("".join(f"{it}\n" for it in names))
        lines = [
            it.removeprefix("$ ") for it in page("fleet").splitlines() if it.startswith(("$ export SSH", "$ xargs "))
        ]
        script = "\n".join(lines)
        for old, new in (("-P 20", f"-P {self._fleet.at_once}"), ("ssh ", "enter "), ("nodes/", f"{where}/")):
            require_equal(f"how often {old!r} is in {script!r}", script.count(old), 1)
            script = script.replace(old, new)
        done = self._fleet.run(["sh", "-c", script], limit=_LIMIT)
        silent = [it for it in names if it in self._kinds and not self._kinds[it].answers]
        empty = [it for it in names if not (folder / where / f"{it}.json").read_bytes()]
        require_equal(f"the nodes without a snapshot ({done.stderr[-1000:]})", empty, silent)
        require_equal("the nodes that are named as being without one", sorted(done.stdout.split()), sorted(silent))
        require_equal(f"the exit code of xargs ({done.stderr[-1000:]})", done.returncode, 0)

    def _answer(self, *words: str, code: int = 0) -> str:
        """What a `hostrouting` command line prints."""
        done = self._fleet.run([sys.executable, "-m", "hostrouting", *words], limit=_LIMIT)
        require_equal(f"the exit code of hostrouting {' '.join(words)} ({done.stderr[-2000:]})", done.returncode, code)
        return done.stdout

    def _checked(self, where: str) -> dict[str, Document]:
        """The document about each node with a snapshot in this directory."""
        words = ["check", "--snapshots", where, "--config", self._config, "--json"]
        done = self._fleet.run([sys.executable, "-c", _CHECK, *words], limit=_LIMIT)
        documents: dict[str, Document] = {it["node"]: it for it in map(json.loads, done.stdout.splitlines())}
        verdicts = {Told.by(it).verdict for it in documents.values()}
        code = 1 if "overlap" in verdicts else 2 if None in verdicts else 3 if verdicts - {"ok"} else 0
        require_equal(f"the exit code of the check ({done.stderr[-2000:]})", done.returncode, code)
        processes = ("the check itself", "the largest process that judges for it")
        for name, kilobytes in zip(processes, done.stderr.split()[-2:], strict=True):
            needed = int(kilobytes) * 1024 / 1e6
            self._figures.megabytes[name] = max(needed, self._figures.megabytes.get(name, 0.0))
        return documents

    def _judged(self, where: str) -> list[NodeResult]:
        """The result for each node with a snapshot in this directory, as a program in Python gets them."""
        folder = self._fleet.folder
        with ThreadPoolExecutor(1) as pool:
            found = fleets.check_snapshots(
                [folder / where], HostRoutingConfig.load(folder / self._config), executor=pool
            )
            return list(found)

    def _grouped(self, where: str) -> tuple[tuple[NodeGroup, ...], list[list[Document]]]:
        """The groups, and for each the routes that the printed page has to paste."""
        groups = fleets.group_nodes(self._judged(where))
        require_groups(groups, self._plans)
        text = self._answer("check", "--snapshots", where, "--config", self._config, code=1)
        self._say("\n\n".join(text.split("\n\n")[:2]))
        return groups, pasted_routes(text, groups)

    def _add_repairs(
        self, groups: Iterable[NodeGroup], pasted: Iterable[list[Document]], found: Mapping[str, Document]
    ) -> list[str]:
        """Add its repair to the configuration of each node that can be repaired, and return these nodes.

        It is the one that is printed for all nodes of its group, or the correction of its own document.
        """
        names = []
        for group, routes in zip(groups, pasted, strict=True):
            if group.verdict == "overlap" and group.is_repairable:
                for name in group.nodes:
                    self._routes[name] = routes or found[name]["correction"]["add"]
                    names.append(name)
        self._figures.counts["repaired nodes"] = len(names)
        return names

    def _applied(self, names: Iterable[str]) -> dict[str, str]:
        """Run `hostrouting apply` on these nodes, each with its configuration; return the errors."""
        folder, named = self._fleet.folder / "configurations", list(names)
        folder.mkdir(exist_ok=True)
        for it in named:
            (folder / f"{it}.json").write_text(json.dumps(_configuration(self._routes[it])))

        def apply(node: Node) -> str:
            path = folder / f"{node.plan.name}.json"
            words = [sys.executable, "-m", "hostrouting", "apply", "--config", str(path), "--wait", "0", "--json"]
            done = self._fleet.run(["enter", node.plan.name, *words])
            outcome = fleets.outcome_of({"apply": fleets.Ran(done.returncode, done.stdout, done.stderr)})
            require_equal(f"whether apply failed: {outcome.message}", outcome.failed, done.returncode != 0)
            return outcome.message if outcome.failed else ""

        return {name: error for name, error in self._fleet.each(apply, named).items() if error}

    def _repair(self, names: Sequence[str]) -> dict[str, str]:
        """Apply the configuration of these nodes, and judge them again; return what is wrong then."""
        wrong = self._applied(names)
        where = f"after-{names[0]}"
        self._take(names, where)
        judged = {it.name: it for it in self._judged(where)}
        require_equal("the nodes of the batch that were judged", sorted(judged), sorted(names))
        return wrong | {
            name: str(it.verdict or it.error) for name, it in judged.items() if it.verdict != "ok" and name not in wrong
        }

    def _require_repaired(
        self, found: Mapping[str, Document], after: Mapping[str, Document], names: Collection[str]
    ) -> None:
        """Nodes that could be repaired are ok; of all others, the same is said as before."""
        require_equal("the nodes that were judged again", sorted(after), sorted(found))
        for name, document in after.items():
            if name in names:
                require_equal(f"what is said about {name} at the end", Told.by(document), Told())
            else:
                now, before = (
                    json.dumps(it).replace(f"{where}/", "")
                    for it, where in ((document, "after"), (found[name], "nodes"))
                )
                require_equal(f"the document about {name} at the end", now, before)

    def _ask_kernels(self, names: Collection[str]) -> None:
        """On all repaired nodes and some others, the kernel sends random addresses of the CIDR by the default route."""
        sound = [name for name in self._plans if name not in self._kinds]
        asked = [*names, *self._rng.sample(sound, min(_SOUND, len(sound)))]
        block = ip_network(CIDR)
        addresses = [str(block[self._rng.randrange(block.num_addresses)]) for _ in range(_ADDRESSES)]
        answers = self._fleet.each(lambda node: node.get(4, addresses), asked)
        for name, routes in answers.items():
            for address, route in zip(addresses, routes, strict=True):
                if isinstance(route, str) or route.type not in {"local", "broadcast"}:  # its own addresses
                    told = route if isinstance(route, str) else [(it.dev, str(it.gateway)) for it in route.legs]
                    require_equal(f"the way of {address} on {name}", told, [("eth0", self._plans[name].gateway)])
        self._figures.counts["addresses that kernels were asked for"] = len(asked) * len(addresses)

    def _require_untouched(self, before: Mapping[str, str], after: Mapping[str, str], names: Collection[str]) -> None:
        """On repaired nodes there are only more routes, all ours; on others, nothing is different, and no file was written."""
        for name, text in before.items():
            old, new = (Counter(it.strip() for it in listed.splitlines()) for listed in (text, after[name]))
            require_equal(f"what is gone on {name}", old - new, Counter())
            foreign = [it for it in new - old if " proto 213 " not in f"{it} "]
            require_equal(f"foreign routes that are new on {name}", foreign, [])
            require_equal(f"whether routes are new on {name}", bool(new - old), name in names)
            require_equal(f"whether files were written on {name}", self._fleet.has_files(name), name in self._routes)


def _configuration(routes: Sequence[Document]) -> Document:
    """The configuration of a node with these static routes."""
    return {
        "staticRoutes": {"enabled": bool(routes), "routes": list(routes)},
        "routeOverlap": {"expectedCidrs": [CIDR], "mode": "STRICT"},
    }
