"""run(only=…, skip=…): which tasks are left out, and names that do not exist."""

import pytest

import phases
from phases import Status
from phases.testing import FakeClock, RecordingObserver, StubTask


def tree() -> phases.Task[object]:
    """bootstrap: download, network (routes, check), start (routes)."""
    return phases.serial(
        phases.retry(StubTask("download")),
        phases.parallel(StubTask("routes"), phases.deadline(StubTask("check"), 5), name="network"),
        phases.serial(StubTask("routes"), name="start"),
        name="bootstrap",
    )


def done(**names: str | tuple[str, ...]) -> list[str]:
    """The leaves that run, in the order of their paths."""
    seen = RecordingObserver()
    report = phases.run(tree(), clock=FakeClock(), observers=[seen], **names)  # type: ignore[arg-type]  # only, skip
    assert report.ok
    return sorted(path for path in seen.started if path not in {"bootstrap", "bootstrap/network", "bootstrap/start"})


ALL = ["bootstrap/download", "bootstrap/network/check", "bootstrap/network/routes", "bootstrap/start/routes"]


@pytest.mark.parametrize(
    ("only", "skip", "expected"),
    [
        ((), (), ALL),
        (("download",), (), ["bootstrap/download"]),
        ("download", (), ["bootstrap/download"]),
        (("network",), (), ["bootstrap/network/check", "bootstrap/network/routes"]),
        (("routes",), (), ["bootstrap/network/routes", "bootstrap/start/routes"]),
        (("start/routes",), (), ["bootstrap/start/routes"]),
        (("bootstrap/network/check",), (), ["bootstrap/network/check"]),
        (("bootstrap",), (), ALL),
        ((), ("network",), ["bootstrap/download", "bootstrap/start/routes"]),
        ((), ("network/routes", "download"), ["bootstrap/network/check", "bootstrap/start/routes"]),
        (("network",), ("check",), ["bootstrap/network/routes"]),
        (("check",), ("network",), []),
        ((), ("bootstrap",), []),
    ],
)
def test_names(only: tuple[str, ...], skip: tuple[str, ...], expected: list[str]) -> None:
    """A name means every task with that name and everything inside it; groups around it run; skip overrides only."""
    assert done(only=only, skip=skip) == expected


def test_left_out_is_reported() -> None:
    """A task that is left out is in the report as skipped, with the option that left it out."""
    report = phases.run(tree(), only="download", observers=[])
    assert (report.find("network").status, report.find("network").reason) == (Status.SKIPPED, "left out by only")
    report = phases.run(tree(), skip="network/check", observers=[])
    assert report.find("network/check").reason == "left out by skip"
    assert report.find("network/routes").status is Status.OK


@pytest.mark.parametrize(
    ("option", "name", "words"),
    [
        ("only", "donwload", "only: there is no task 'donwload'. The tasks are: bootstrap, "),
        (
            "skip",
            "zzz",
            "skip: there is no task 'zzz'. The tasks are: bootstrap, download, network, routes, check, start",
        ),
        ("skip", "network/download", "there is no task 'network/download'"),
        ("only", "", "only: there is no task ''"),
    ],
)
def test_unknown_names(option: str, name: str, words: str) -> None:
    """An unknown name is an error before the first task starts; it suggests the nearest name and lists all names."""
    seen = RecordingObserver()
    with pytest.raises(phases.UnknownTask) as caught:
        phases.run(tree(), observers=[seen], **{option: (name,)})  # type: ignore[arg-type]  # only or skip
    assert words in str(caught.value)
    assert seen.events == []


def test_steps_that_are_not_known_beforehand() -> None:
    """A step that a selected task executes itself runs with it; if the step is left out, the task gets a Skip."""
    results: list[object] = []

    @phases.task("outer")
    def outer(ctx: phases.Context) -> None:
        results.append(phases.execute(StubTask("inner", 1), ctx))

    phases.run(phases.serial(outer, StubTask("inner")), only="outer", observers=[])
    phases.run(phases.serial(outer, StubTask("inner")), skip="inner", observers=[])
    assert results == [1, phases.Skip("left out by skip")]
