"""The result for a node, from its snapshot: the judgement of `hostrouting check --snapshot`.

Here: the result, a small value that another process can make and send; the judgement, which any process can call; and
which snapshots there are, what the node of each is called, and which files have the same bytes. Not here: who judges
where (`dispatch`), and which nodes have the same result (`grouping`).

Equal snapshots are judged once. A result is kept only until the last snapshot with the same bytes has come, so the
number of these is counted beforehand. Files of different sizes differ, so only files of equal size are read for this,
one by one.
"""

from __future__ import annotations

import glob
import json
import os
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import attrs

from hostrouting.arguments import HOST_OF_A_SNAPSHOT, listed, require_devices
from hostrouting.check.check import CheckReport, Verdict, check_snapshot, missing_routes
from hostrouting.check.report import check_document
from hostrouting.errors import ConfigError, Fault, FleetError, HostRoutingError, InputError
from hostrouting.fib.engine import PLAIN
from hostrouting.host.saved import of_file, snapshot_bytes, snapshot_in
from hostrouting.model.document import STANDARD_INPUT
from phases.text import describe_error

if TYPE_CHECKING:
    from hostrouting.config.settings import HostRoutingConfig
    from hostrouting.model.prefix import Prefix
    from hostrouting.model.snapshot import Snapshot
    from hostrouting.routes.uplink import DesiredRoute


@attrs.frozen
class NodeEscape:
    """A range of an expected CIDR that escapes; first and last are integers, both included; `devs` are used instead."""

    cidr: Prefix
    first: int
    last: int
    kind: str
    devs: tuple[str, ...]
    packets: str = ""
    """Which packets, as a phrase; empty for plain packets of the host itself."""

    @property
    def is_whole(self) -> bool:
        """Whether the range is all of the CIDR."""
        return (self.first, self.last) == (self.cidr.first, self.cidr.last)


@attrs.frozen
class NodeResult:
    """The result for one node: a verdict with its reasons, or the error that prevented a verdict."""

    name: str = ""
    path: str = ""
    """The file with its snapshot."""
    verdict: Verdict | None = None
    """None if the snapshot could not be judged."""
    escapes: tuple[NodeEscape, ...] = ()
    """What escapes."""
    without_default: tuple[int, ...] = ()
    """The families that have no default route: 4, 6 or both."""
    doubts: tuple[str, ...] = ()
    """The names of what makes the verdict undecided."""
    routes: tuple[DesiredRoute, ...] = ()
    """The routes that the configuration lacks to repair the node; empty if no routes repair all of it."""
    is_repairable: bool = False
    """Whether routes repair everything that escapes."""
    answer: str = ""
    """What `hostrouting check --snapshot FILE --json` prints, on one line; empty without a verdict."""
    failure: HostRoutingError | None = None
    """Why no verdict is given, without the name of the file."""

    @property
    def error(self) -> HostRoutingError | None:
        """The error that prevented a verdict on this file; None if there is a verdict."""
        return of_file(self.failure, self.path) if isinstance(self.failure, InputError) else self.failure

    def to_mapping(self) -> dict[str, Any]:
        """The same document as plain values, with what is known of the node; or the facts of the error."""
        error = self.error
        said = json.loads(self.answer) if error is None else error.to_mapping()
        return {**self.heading, **said}

    @property
    def heading(self) -> dict[str, Any]:
        """The keys that a node's document has beside those of a check: its name and its file."""
        return {"node": self.name, "snapshot": self.path}

    @property
    def findings(self) -> list[dict[str, Any]]:
        """The findings of that document: the escapes, and what limits or explains the verdict."""
        found: list[dict[str, Any]] = json.loads(self.answer or "{}").get("findings", [])
        return found

    @property
    def repair(self) -> list[dict[str, Any]]:
        """The routes that repair the node as it is, as values for `staticRoutes.routes`."""
        found: list[dict[str, Any]] = json.loads(self.answer or "{}").get("repair", [])
        return found

    def __str__(self) -> str:
        return f"{self.name}: {self.verdict or self.error}"

    def __repr__(self) -> str:
        return f"<NodeResult {self}>"


@attrs.frozen
class Question:
    """The question that is asked of every node."""

    config: HostRoutingConfig
    devs: tuple[str, ...] = ()
    """Devices that `--dev` names; they have to exist on every node."""
    is_whole: bool = False
    """Whether this is the configuration of the nodes, and not only what to check on them."""


def judge_each(data: Sequence[bytes], question: Question) -> tuple[NodeResult, ...]:
    """The result for each snapshot. A faulty one does not keep the others from being judged."""
    return tuple([_judged(snapshot, question) for snapshot in data])


def _judged(data: bytes, question: Question) -> NodeResult:
    try:
        return judge(data, question)
    except HostRoutingError as error:
        return NodeResult(failure=error)
    except MemoryError:
        sentence = "there is not enough memory to judge this snapshot"
        return NodeResult(failure=FleetError(sentence, kind="judging-failed"))
    except Exception as error:  # noqa: BLE001  the other nodes have to be judged
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        code = None if trace is None else trace.tb_frame.f_code
        where = "" if code is None or trace is None else f" in {code.co_name}, {code.co_filename}:{trace.tb_lineno}"
        sentence = f"this is a bug in hostrouting, please report it: {describe_error(error)}{where}"
        return NodeResult(failure=FleetError(sentence, kind="judging-failed"))


def judge(data: bytes, question: Question) -> NodeResult:
    """The result for one snapshot, without a name. Raises InputError or ConfigError if there can be no verdict."""
    config = question.config
    snapshot = snapshot_in(data)
    require_devices((("--dev", dev) for dev in question.devs), snapshot, host=HOST_OF_A_SNAPSHOT)
    report = check_snapshot(snapshot, config)
    is_repairable = bool(report.routes) and not any(family.repair.unsafe for family in report.families)
    return NodeResult(
        verdict=report.verdict,
        escapes=tuple(_escapes(report)),
        without_default=tuple(family.family for family in report.families if family.verdict == "no-default-route"),
        doubts=tuple(dict.fromkeys(doubt.name for family in report.families for doubt in family.doubts)),
        routes=_missing(report, snapshot, question) if is_repairable else (),
        is_repairable=is_repairable,
        answer=json.dumps(check_document(report, mode=config.route_overlap.mode)),
    )


def _missing(report: CheckReport, snapshot: Snapshot, question: Question) -> tuple[DesiredRoute, ...]:
    """The routes that the configuration lacks; all of the repair, if it is not that of the nodes."""
    return missing_routes(question.config, snapshot)[0] if question.is_whole else report.routes


def _escapes(report: CheckReport) -> Iterator[NodeEscape]:
    for escape in report.escapes:
        packets = "" if escape.packet is PLAIN else "what pods send"
        yield NodeEscape(escape.cidr, escape.first, escape.last, escape.kind, escape.devs, packets)


# The files with snapshots.

_SUFFIX = ".json"


@attrs.frozen
class Source:
    """One snapshot: the name of its node, and the file."""

    name: str
    path: str


def find_snapshots(paths: Iterable[str | os.PathLike[str]]) -> tuple[Source, ...]:
    """The snapshots at these paths, each once, in order.

    A path is a file, a directory, which stands for the *.json files in it, or a pattern such as "nodes/*.json", in
    which ** matches any number of directories. A node is called like its file, without .json; if several files have
    one name, with as much of their paths as tells them apart.

    Raises ConfigError, which lists every path without a snapshot.
    """
    named = [os.fspath(path) for path in listed(paths, "find_snapshots: paths")]
    found: dict[str, str] = {}
    faults: list[Fault] = []
    for path in named:
        try:
            found |= {os.path.abspath(file): file for file in _files_at(path) if os.path.abspath(file) not in found}
        except ConfigError as error:
            faults += error.faults
        except OSError as error:
            faults += _unusable(path, f"cannot be read: {error.strerror}", "check the path and the permissions").faults
    if not named:
        faults.append(Fault("snapshots", "", "no path is given", "name a directory, a pattern or files"))
    if faults:
        raise ConfigError(faults)
    return tuple(map(Source, _names(tuple(found)), found.values()))


def _unusable(path: str, rule: str, remedy: str) -> ConfigError:
    return ConfigError([Fault("snapshots", repr(path), rule, remedy)])


def _files_at(path: str) -> list[str]:
    """The files that a path names."""
    if path == STANDARD_INPUT:
        raise _unusable(path, "is standard input, which is one snapshot", "check it with --snapshot -")
    if os.path.isdir(path):
        if found := _files_in(path):
            return found
        raise _unusable(
            path, f"has no {_SUFFIX} file", "save the snapshot of each node there: hostrouting snapshot > FILE"
        )
    if os.path.lexists(path):
        return [path]
    if not glob.has_magic(path):
        raise _unusable(path, "does not exist", "check the path")
    matches = sorted(glob.glob(path, recursive=True))
    if found := [file for match in matches for file in _matched(match)]:
        return found
    raise _unusable(path, "matches no file", "check the pattern, and quote it for the shell")


def _matched(path: str) -> list[str]:
    if os.path.isdir(path) and ((found := _files_in(path)) or not path.endswith(_SUFFIX)):
        return found
    return [path]


def _files_in(folder: str) -> list[str]:
    """The paths in the folder that are named like snapshots. Whether each is a file, its result says."""
    with os.scandir(folder) as entries:
        named = (entry for entry in entries if entry.name.endswith(_SUFFIX) and not entry.name.startswith("."))
        return sorted(entry.path for entry in named)


def _names(paths: Sequence[str]) -> Iterator[str]:
    """A name for each of these different absolute paths, so that no two are equal."""
    parts = {path: path.removesuffix(_SUFFIX).split(os.sep) for path in paths}
    names: dict[str, str] = {}
    depth, left = 1, list(paths)
    while left:
        alike: dict[str, list[str]] = {}
        for path in left:
            alike.setdefault("/".join(parts[path][-depth:]), []).append(path)
        names |= {same[0]: name for name, same in alike.items() if len(same) == 1}
        # Files whose paths differ only in the suffix keep the whole path.
        longest = {path: path for path in left if depth >= len(parts[path])}
        names |= {path: path for path in longest if path not in names}
        left = [path for path in left if path not in names]
        depth += 1
    return map(names.__getitem__, paths)


def digest_of(data: bytes) -> bytes:
    """A digest of these bytes; other bytes have another one."""
    return blake2b(data, digest_size=16).digest()


def count_repeated(paths: Iterable[str]) -> Counter[bytes]:
    """The number of regular files with these bytes, if several have them. A pipe can be read only once."""
    by_size: dict[int, list[str]] = {}
    for path in paths:
        with suppress(OSError, ValueError):  # its result will say why it cannot be read
            found = os.stat(path)
            if stat.S_ISREG(found.st_mode):
                by_size.setdefault(found.st_size, []).append(path)
    counts = Counter(digest for alike in by_size.values() if len(alike) > 1 for digest in _digests(alike))
    return Counter({digest: count for digest, count in counts.items() if count > 1})


def _digests(paths: Iterable[str]) -> Iterator[bytes]:
    for path in paths:
        with suppress(InputError):  # as above
            yield digest_of(snapshot_bytes(path))
