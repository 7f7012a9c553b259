"""Many snapshots: read here, sent in batches to processes or a cluster, and the results in their order of arrival.

Here: the check of many snapshots as one call; the order of events; and starting, replacing and ending processes. Not
here: the judgement (`judge`).

How it works. The calling process reads the files, so workers on another computer need none of them. It sends a batch
when the one before has left, and keeps only so many on the way that every worker is busy; so the memory does not grow
with the snapshots. A snapshot with the bytes of another one, judged or on its way, is not sent: the result of the first
is kept until the last one has come.

A batch is lost if its worker ends. It is not known which of the snapshots on their way was the cause. So the run waits
for all others, and then judges each lost snapshot again, alone. If the worker ends again, this snapshot is the cause,
and that is its result. If the executor takes no more batches, the run ends, and the error says how many snapshots were
judged. The run also ends if the workers cannot judge at all, which an empty batch shows: hostrouting may not be
installed there.
"""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, ProcessPoolExecutor, wait
from multiprocessing import connection, get_context, parent_process
from typing import TypeAlias

import attrs

from hostrouting.arguments import require
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.errors import ConfigError, Fault, FleetError, InputError
from hostrouting.fleet.judge import NodeResult, Question, Source, count_repeated, digest_of, find_snapshots, judge_each
from hostrouting.host.saved import snapshot_bytes
from phases.text import describe_error

BatchJudge: TypeAlias = "Callable[[Sequence[bytes], Question], tuple[NodeResult, ...]]"
Results: TypeAlias = "Future[tuple[NodeResult, ...]]"


def check_snapshots(
    paths: Iterable[str | os.PathLike[str]], config: HostRoutingConfig, *, executor: Executor | None = None
) -> Iterator[NodeResult]:
    """Judge each snapshot at these paths by the configuration; yield each result as it arrives.

    The configuration must be complete: `apply` deletes every route of hostrouting that is not in it. So if a node has
    such a route now and needs it, its `correction` adds it. A node that is ok now may not be ok after `apply`: to find
    out, make a plan (`Configure.plan`).

    A path is a file, a directory or a pattern (see `find_snapshots`). A file without a valid snapshot has a result,
    too, which says why. Equal snapshots are judged once.

    Without an `executor`, processes of our own judge, one for each processor; they end with the iteration. Any
    `concurrent.futures.Executor` will do, such as `Client.get_executor()` of Dask for a cluster, whose workers need
    hostrouting, but none of the files. What a lost worker had is judged again.

    Raises ConfigError at once if a path has no snapshot, or the configuration expects no CIDR; during the iteration
    FleetError if the executor cannot go on.
    """
    require(config, HostRoutingConfig, "check_snapshots", "write HostRoutingConfig.load(path)")
    if not config.route_overlap.cidrs:
        rule = "no expected CIDR is given, so there is nothing to check"
        raise ConfigError([Fault("routeOverlap.expectedCidrs", "", rule, "name one, such as 172.16.0.0/16")])
    return judge_snapshots(find_snapshots(paths), Question(config, is_whole=True), executor=executor)


_SNAPSHOTS, _BYTES = 16, 1 << 20  # the most in one batch: enough that sending it costs little beside judging it


def judge_snapshots(
    sources: Sequence[Source], question: Question, *, executor: Executor | None = None, judge: BatchJudge = judge_each
) -> Iterator[NodeResult]:
    """One result for each source, as it arrives. Without an executor, processes of our own judge.

    Raises FleetError if the executor cannot go on.
    """
    workers = OwnProcesses() if executor is None else Workers(executor)
    return _Run(sources, question, workers, judge).results()


@attrs.frozen
class _Sent:
    """A snapshot that was sent and has no result yet."""

    digest: bytes
    data: bytes


class _Run:
    """The state of one run."""

    def __init__(self, sources: Sequence[Source], question: Question, workers: Workers, judge: BatchJudge) -> None:
        self._sources, self._question, self._workers, self._judge = sources, question, workers, judge
        self._on_the_way: dict[Results, list[_Sent]] = {}
        self._lost: list[_Sent] = []
        # By the digest of a snapshot: who waits for its result; then the result, for as many as have still to come.
        self._waiting: dict[bytes, list[Source]] = {}
        self._known: dict[bytes, NodeResult] = {}
        self._to_come: Counter[bytes] = Counter()
        self._count = 0

    def results(self) -> Iterator[NodeResult]:
        """All results."""
        try:
            for result in self._results():
                self._count += 1
                yield result
        finally:
            for future in self._on_the_way:
                future.cancel()
            self._workers.close()

    def _results(self) -> Iterator[NodeResult]:
        batch: list[_Sent] = []
        self._to_come = count_repeated(source.path for source in self._sources)
        for source in self._sources:
            try:
                data = snapshot_bytes(source.path)
            except InputError as error:
                yield NodeResult(source.name, source.path, failure=error)
                continue
            digest = digest_of(data)
            self._to_come[digest] -= 1
            if digest in self._known:
                yield _named(self._known[digest], source)
                if self._to_come[digest] <= 0:
                    del self._known[digest], self._to_come[digest]
            elif digest in self._waiting:
                self._waiting[digest].append(source)
            else:
                self._waiting[digest] = [source]
                batch.append(_Sent(digest, data))
            if len(batch) == _SNAPSHOTS or sum(len(sent.data) for sent in batch) >= _BYTES:
                yield from self._send(batch)
                batch = []
        if batch:
            yield from self._send(batch)
        while self._on_the_way:
            yield from self._receive()

    def _send(self, batch: list[_Sent]) -> Iterator[NodeResult]:
        """Send the batch as soon as there is room; yield the results that arrive until then."""
        while len(self._on_the_way) >= self._workers.at_once or any(future.done() for future in self._on_the_way):
            yield from self._receive()
        self._on_the_way[self._submit(batch)] = batch

    def _submit(self, batch: Sequence[_Sent]) -> Results:
        try:
            return self._workers.submit(self._judge, [sent.data for sent in batch], self._question)
        except Exception as error:
            raise self._stopped(error) from error

    def _receive(self) -> Iterator[NodeResult]:
        """Wait for a batch and yield its results. After a loss, yield those of all other sent snapshots too."""
        yield from self._arrived()
        if self._lost:
            while self._on_the_way:
                yield from self._arrived()
            again, self._lost = self._lost, []
            yield from self._judge_alone(again)

    def _arrived(self) -> Iterator[NodeResult]:
        done, _ = wait(self._on_the_way, return_when=FIRST_COMPLETED)
        for future in [future for future in self._on_the_way if future in done]:  # in the order in which they were sent
            batch = self._on_the_way.pop(future)
            found = _outcome(future)
            if isinstance(found, Exception):
                self._lost += batch
            else:
                for sent, result in zip(batch, found, strict=True):
                    yield from self._judged(sent, result)

    def _judge_alone(self, again: Iterable[_Sent]) -> Iterator[NodeResult]:
        self._renew()
        for sent in again:
            found = _outcome(self._submit([sent]))
            if isinstance(found, Exception):
                self._renew()
                lost = FleetError(
                    "two processes in a row ended while they judged this snapshot; the second judged nothing else"
                    f" ({describe_error(found)}); perhaps there is too little memory",
                    kind="worker-lost",
                )
                found = (NodeResult(failure=lost),)
            yield from self._judged(sent, found[0])

    def _renew(self) -> None:
        """Go on after a loss, with new workers if needed. Raises if new workers cannot judge either."""
        self._workers.close()
        found = _outcome(self._submit([]))
        if isinstance(found, Exception):
            raise self._stopped(found) from found

    def _judged(self, sent: _Sent, result: NodeResult) -> Iterator[NodeResult]:
        if self._to_come[sent.digest] > 0:
            self._known[sent.digest] = result
        else:
            del self._to_come[sent.digest]
        yield from (_named(result, source) for source in self._waiting.pop(sent.digest))

    def _stopped(self, error: Exception) -> FleetError:
        reason = f"the executor could not go on ({describe_error(error)})"
        sentence = f"{self._count:,} of {len(self._sources):,} snapshots were judged, and then {reason}"
        return FleetError(sentence, kind="incomplete")


def _outcome(future: Results) -> tuple[NodeResult, ...] | Exception:
    """The results of a batch, or the error that lost it. `judge_each` raises none, so this is the executor's."""
    try:
        return future.result()
    except Exception as error:  # noqa: BLE001  each executor has errors of its own
        return error


def _named(result: NodeResult, source: Source) -> NodeResult:
    return attrs.evolve(result, name=source.name, path=source.path)


# Who judges: processes of our own, or an executor that was given. A batch goes in, and a future comes out.


class Workers:
    """An executor of the caller, who also ends it: processes or a cluster that judge several batches at a time."""

    at_once = 64
    """The number of batches that keep all of them busy."""

    def __init__(self, executor: Executor) -> None:
        """Use this executor."""
        self._executor = executor

    def submit(self, judge: BatchJudge, data: Sequence[bytes], question: Question) -> Results:
        """Call `judge` with these arguments, on a worker. Any exception in the future means a lost batch.

        Raises whatever the executor raises if it takes no batch any more.
        """
        return self._executor.submit(judge, data, question)

    def close(self) -> None:
        """End our own workers, at the end and after a loss; the next batch starts new ones. Idempotent."""


class OwnProcesses(Workers):
    """Processes on this computer, one for each processor that this process may use.

    Each is a new interpreter and not a fork: a fork of a process with threads can hang.
    """

    def __init__(self) -> None:
        """Start no process yet."""
        self._count = _processors()
        self.at_once = 2 * self._count
        self._pool: ProcessPoolExecutor | None = None

    def submit(self, judge: BatchJudge, data: Sequence[bytes], question: Question) -> Results:
        """See Workers."""
        if self._pool is None:
            self._pool = ProcessPoolExecutor(self._count, mp_context=get_context("spawn"), initializer=_begin)
        # A process that starts now inherits this. Ctrl-C is for the program that waits for the results.
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            return self._pool.submit(judge, data, question)
        except BrokenExecutor as error:  # a process has ended, and this batch is lost like those before it
            lost: Results = Future()
            lost.set_exception(error)
            return lost
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)

    def close(self) -> None:
        """See Workers."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None


def _processors() -> int:
    """The number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _begin() -> None:
    """Make this new process end when its parent ends: the first call in it."""
    parent = parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()


def _end_with(parent: int) -> None:
    connection.wait([parent])
    os._exit(1)
