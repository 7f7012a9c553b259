"""Many snapshots, judged by others: each has one result, whatever happens to the workers."""

import gc
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostrouting.errors import FleetError
from hostrouting.fleet import Source, dispatch, find_snapshots
from hostrouting.fleet.dispatch import judge_snapshots
from hostrouting.fleet.judge import NodeResult, Question, judge
from hostrouting.host.saved import snapshot_bytes
from hostrouting.testing import plain_vm
from tests.support.fleets import ASKED, DEADLY, ONCE, Inline, Slow, deadly_judge, distinct_nodes, echo, save
from tests.support.kinds import kind_of, raises


def answers(results: Iterator[NodeResult]) -> dict[str, str]:
    """What was found, by the name of the node."""
    found = list(results)
    assert len({it.name for it in found}) == len(found)
    return {it.name: it.answer or str(it.error) for it in found}


def test_results_come_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No more snapshots are read ahead than keep the workers busy, however many there are."""
    sources = find_snapshots([save(tmp_path, {f"{number:04}": str(number) for number in range(1200)})])
    with monkeypatch.context() as patch:
        reading = mock.Mock(wraps=snapshot_bytes)
        patch.setattr(dispatch, "snapshot_bytes", reading)
        results = judge_snapshots(sources, ASKED, executor=Slow(64), judge=echo)
        assert next(results).answer == "0"
        assert 60 * 16 < reading.call_count <= 65 * 16
        results.close()  # type: ignore[attr-defined]  # it is a generator


def test_no_result_is_kept(tmp_path: Path) -> None:
    """Of hundreds of results, only those exist that the caller keeps, and those that came with them."""
    nodes = {f"{number:04}": str(number) for number in range(400)} | {"z": "0"}
    results = judge_snapshots(find_snapshots([save(tmp_path, nodes)]), ASKED, executor=Inline(), judge=echo)
    for _ in range(300):
        next(results)
    # Other tests of this process may still have results.
    assert (
        sum(isinstance(found, NodeResult) and found.path.startswith(str(tmp_path)) for found in gc.get_objects()) < 50
    )
    results.close()  # type: ignore[attr-defined]  # it is a generator


def test_large_snapshots_are_sent_alone(tmp_path: Path) -> None:
    """A batch has at most sixteen snapshots, and fewer if they are large."""
    executor = Inline()
    save(tmp_path, {f"{number:02}": f"{number} " * (1 if number < 17 else 600_000) for number in range(20)})
    answers(judge_snapshots(find_snapshots([tmp_path]), ASKED, executor=executor, judge=echo))
    assert [len(batch) for batch in executor.batches] == [16, 2, 1, 1]


def test_equal_snapshots_are_judged_once(tmp_path: Path) -> None:
    """Equal bytes are sent once, whether the first were judged, are on their way or are in the same batch."""
    executor = Inline()
    nodes = {f"{number:04}": f"{number % 30}" for number in range(600)}
    found = answers(judge_snapshots(find_snapshots([save(tmp_path, nodes)]), ASKED, executor=executor, judge=echo))
    assert found == nodes
    assert sorted(it for batch in executor.batches for it in batch) == sorted(
        {node.encode() for node in nodes.values()}
    )


def test_equal_snapshots_without_a_verdict(tmp_path: Path) -> None:
    """Of equal files, each error names its own."""
    save(tmp_path, {"one": "{}", "other": "{}"})
    found = {node.name: node.error for node in judge_snapshots(find_snapshots([tmp_path]), ASKED, executor=Inline())}
    for name, error in found.items():
        assert str(error).startswith(f"{tmp_path}/{name}.json: schema: must be 'hostrouting/snapshot/1'; save")


class Losing:
    """Loses the batches with certain snapshots, the first few times."""

    def __init__(self, times: dict[bytes, int]) -> None:
        """How often each of them is lost."""
        self._times = times

    def __call__(self, batch: list[bytes]) -> None:
        """Raise OSError for the loss of a batch."""
        lost = [it for it in batch if self._times.get(it, 0)]
        for it in lost:
            self._times[it] -= 1
        if lost:
            raise OSError("the worker is gone")


def test_what_a_worker_loses_is_judged_again(tmp_path: Path) -> None:
    """Each snapshot of a lost batch is sent again, alone; none of the others is."""
    executor = Inline(Losing({b"20": 1}))
    nodes = {f"{number:02}": str(number) for number in range(64)}
    found = answers(judge_snapshots(find_snapshots([save(tmp_path, nodes)]), ASKED, executor=executor, judge=echo))
    assert found == nodes
    lost = [str(number).encode() for number in range(16, 32)]
    assert [batch for batch in executor.batches if len(batch) == 1] == [[it] for it in lost]
    assert executor.batches.count([]) == 1  # whether the workers can judge at all


class Ending(Inline):
    """An executor that takes so many batches, and then no more."""

    def __init__(self, most: int) -> None:
        """Take this many results."""
        super().__init__()
        self._most = most

    def submit(self, *args: Any, **kwargs: Any) -> Future[Any]:
        """See Executor."""
        if len(self.batches) == self._most:
            raise RuntimeError("cannot schedule new futures after shutdown")
        return super().submit(*args, **kwargs)


def test_an_executor_that_ends(tmp_path: Path) -> None:
    """The error says why, and how many snapshots were judged; these have their results."""
    sources = find_snapshots([save(tmp_path, {f"{number:04}": str(number) for number in range(400)})])
    results = judge_snapshots(sources, ASKED, executor=Ending(16), judge=echo)
    found: list[NodeResult] = []
    with raises(FleetError, "incomplete") as caught:
        found.extend(iter(lambda: next(results), None))
    assert len(found) >= 16
    assert str(caught.value) == (
        f"{len(found):,} of 400 snapshots were judged, and then the executor could not go on (RuntimeError: cannot "
        "schedule new futures after shutdown)"
    )


def test_workers_that_cannot_judge_at_all(tmp_path: Path) -> None:
    """If not even an empty batch has a result, as without hostrouting on a cluster, the run ends, and not each node."""

    def refuse(_: list[bytes]) -> None:
        raise OSError("no hostrouting here")

    executor = Inline(refuse)
    sources = find_snapshots([save(tmp_path, {"one": "1", "other": "2"})])
    with raises(FleetError, "incomplete", match=r"0 of 2 snapshots were judged, .*OSError: no hostrouting here"):
        list(judge_snapshots(sources, ASKED, executor=executor, judge=echo))
    assert executor.batches == [[b"1", b"2"], []]


def test_a_bug_is_the_result_of_one_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An unexpected error names the place in the code, and the other nodes are judged."""
    original = judge

    def buggy(data: bytes, question: Question) -> NodeResult:
        if b"10.0.1." in data:
            raise KeyError("oops")
        if b"10.0.2." in data:
            raise MemoryError
        return original(data, question)

    monkeypatch.setattr("hostrouting.fleet.judge.judge", buggy)
    sources = find_snapshots([save(tmp_path, distinct_nodes(4))])
    found = {node.name: node for node in judge_snapshots(sources, ASKED, executor=Inline())}
    assert [it.verdict for _, it in sorted(found.items())] == ["overlap", None, None, "overlap"]
    error, short = found["node-00001"].error, found["node-00002"].error
    assert kind_of(error) == "judging-failed"
    assert "this is a bug in hostrouting, please report it: KeyError: 'oops' in buggy, " in str(error)
    assert str(short) == "there is not enough memory to judge this snapshot"


@given(
    texts=st.lists(st.sampled_from(["a", "b", "c", "d", "lost once", "lost twice", ""]), max_size=60),
    batch=st.integers(1, 4),
    threads=st.integers(1, 3),
)
def test_each_snapshot_has_one_result(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], batch: int, threads: int
) -> None:
    """Whatever is equal, unreadable or lost, and however many at once: each snapshot has exactly one result, its own."""
    folder = tmp_path_factory.mktemp("nodes")
    save(folder, {str(number): text for number, text in enumerate(texts)})
    sources = [Source(str(number), str(folder / f"{number}.json")) for number in range(len(texts))]
    times = {b"lost once": 1, b"lost twice": 2}
    losing = Losing(times)

    def judging(data: Sequence[bytes], question: Question) -> tuple[NodeResult, ...]:
        losing(list(data))
        return echo(data, question)

    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(threads) as executor:
        patch.setattr(dispatch, "_SNAPSHOTS", batch)
        results = list(judge_snapshots(sources, ASKED, executor=executor, judge=judging))
    assert sorted(int(result.name) for result in results) == list(range(len(texts)))
    for result in results:
        text = texts[int(result.name)]
        assert (kind_of(result.failure) == "worker-lost") is (text == "lost twice")
        told = "the second judged nothing else (OSError: the worker is gone)"
        assert (told in str(result.failure)) is (text == "lost twice")
        assert result.answer == ("" if text == "lost twice" else text)


@pytest.mark.linux
class TestOwnProcesses:
    """Real processes, which are really killed."""

    def test_they_judge(self, tmp_path: Path) -> None:
        """The processes give the same results as this process, and all of them end."""
        nodes = {**distinct_nodes(40), "broken": "{", "vm": plain_vm().snapshot().to_json()}
        sources = find_snapshots([save(tmp_path, nodes)])
        found = {node.name: node for node in judge_snapshots(sources, ASKED)}
        here = {node.name: node for node in judge_snapshots(sources, ASKED, executor=Inline())}
        assert {name: (it.answer, str(it.error)) for name, it in found.items()} == {
            name: (it.answer, str(it.error)) for name, it in here.items()
        }
        assert not children()

    def test_a_process_is_killed(self, tmp_path: Path) -> None:
        """What a killed process had is judged again, by another one."""
        (tmp_path / "marker").touch()
        nodes: dict[str, Any] = {f"{number:02}": str(number) for number in range(60)}
        nodes["33"] = ONCE.decode() + str(tmp_path / "marker")
        sources = find_snapshots([save(tmp_path / "nodes", nodes)])
        assert answers(judge_snapshots(sources, ASKED, judge=deadly_judge)) == nodes
        assert not children()

    def test_a_snapshot_that_kills_every_process(self, tmp_path: Path) -> None:
        """Only this snapshot has no verdict."""
        nodes: dict[str, Any] = {f"{number:02}": str(number) for number in range(60)}
        nodes["33"] = DEADLY
        results = list(judge_snapshots(find_snapshots([save(tmp_path, nodes)]), ASKED, judge=deadly_judge))
        assert {result.name: result.failure.kind for result in results if result.failure} == {"33": "worker-lost"}
        assert {result.name for result in results} == nodes.keys()
        assert not children()

    def test_the_reader_has_enough(self, tmp_path: Path) -> None:
        """A caller that stops early leaves no process behind."""
        results = judge_snapshots(find_snapshots([save(tmp_path, distinct_nodes(50))]), ASKED)
        assert next(results).verdict == "overlap"
        results.close()  # type: ignore[attr-defined]  # it is a generator
        assert not children()

    def test_no_process_can_judge(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """If no process starts as it should, the error says so at once."""
        monkeypatch.setattr("hostrouting.fleet.dispatch._begin", unable)
        with raises(FleetError, "incomplete", match=r"0 of 1 snapshots were judged, .*BrokenProcessPool"):
            list(judge_snapshots(find_snapshots([save(tmp_path, {"one": "1"})]), ASKED, judge=echo))
        assert not children()


def unable() -> None:
    """What a process does first: it ends."""
    os._exit(7)


def children() -> list[str]:
    """The worker processes of this process."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat") as stat, open(f"/proc/{name}/cmdline") as line:
                    is_mine = stat.read().rpartition(")")[2].split()[1] == str(os.getpid())
                    if is_mine and "spawn_main" in (command := line.read()):
                        found.append(command)
            except (FileNotFoundError, ProcessLookupError):
                continue
    return found
