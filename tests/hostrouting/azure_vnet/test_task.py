"""CleanStaleAzureVnet, on hosts in memory."""

import errno
import re
import textwrap
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import phases
from hostrouting.azure_vnet.neighbours import Neighbour
from hostrouting.azure_vnet.state import STATE_FILE
from hostrouting.azure_vnet.task import CleanStaleAzureVnet, CleanupResult
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.errors import BackendError, HostError
from hostrouting.host.effects import Effects, effects_of
from hostrouting.host.host import Host
from hostrouting.kernel.netlink import NetlinkBackend
from hostrouting.model.prefix import as_ip
from hostrouting.model.snapshot import Link
from hostrouting.testing import FakeEbtables, FakeFiles, FakeHost, FakeLinkLayer, azure_vnet
from phases.testing import FakeClock
from tests.support import azure_leftovers as azure
from tests.support.azure_rules import pod_rules
from tests.support.kinds import kind_of
from tests.support.tasks import LAYOUT, failure_of, run

UNDO = "/var/lib/hostrouting/azure-vnet-1.undo"
CONFLIST = {"/etc/cni/net.d/10-azure.conflist": '{"plugins": [{"type": "azure-vnet"}]}'}
BATCH = 2
"""The number of the call of ebtables that deletes: before it, the rules are read for the plan."""


def state_of(host: azure.AzureHost) -> str:
    return f"{host.ebtables.rules} {host.link_layer.neighbours} {host.kernel} {host.files.texts}"


def ebtables_error(kind: str) -> HostError:
    return HostError("ebtables has failed", what="ebtables", kind=kind)


def clean(host: azure.AzureHost, **changed: Any) -> CleanupResult:
    result = run(azure.task(azure.config(**changed), host=host))
    assert isinstance(result, CleanupResult)
    return result


def failure(host: azure.AzureHost) -> Any:
    """Run the task; its error, after which nothing is changed and no undo file is left."""
    before = state_of(host)
    error = failure_of(clean, host)
    assert state_of(host) == before
    assert effects_of(error) == Effects()
    return error


def test_what_is_stale_is_deleted(caplog: pytest.LogCaptureFixture) -> None:
    """Rules first, so that no rule sends packets to a neighbour that is gone; nothing else goes.
    Before that, all is in the log and in a file for root alone, and the lock is held.
    """
    caplog.set_level("INFO")
    host = azure.host(files=FakeFiles({STATE_FILE: azure.state("azv8", "10.1.0.5")}))  # warns
    then: list[object] = []
    held = host.files.locked
    host.ebtables.meanwhile(lambda: then.extend([host.files.modes[UNDO], *held]), nth=BATCH)
    result = clean(host)
    assert then == [0o600, LAYOUT.lock_path]
    assert caplog.text.count("will delete") == 13
    assert host.ebtables.rules == list(azure.KEPT_RULES)
    assert host.link_layer.neighbours == list(azure.NEIGHBOURS[1:])
    routes = set(host.kernel.snapshot().routes)
    assert not set(azure.STALE_ROUTES) & routes
    assert "10.1.0.8/32" in {str(route.prefix) for route in routes}
    kinds = [operation.object.split()[0] for operation in result.operations]
    assert kinds == ["rule"] * 10 + ["neighbour"] + ["route"] * 2
    assert result.log_fields() == {"stale": 13, "deleted": 13, "conflicts": 4, "undo_file": UNDO}
    assert result.files == (UNDO,)

    assert clean(host).undo_file == ""
    host.ebtables.rules.append(azure.STALE_RULES[0])
    assert clean(host).undo_file == UNDO.replace("-1.", "-2."), "it has a file of its own"
    host.link_layer.neighbours.append(azure.NEIGHBOURS[0])
    assert clean(host).undo_file == UNDO.replace("-1.", "-3."), "it may have no rule"


def test_a_dry_run(caplog: pytest.LogCaptureFixture) -> None:
    """By default nothing is changed, no file is written, and the lock is not taken. Without a
    section there is nothing to do.
    """
    caplog.set_level("INFO")
    host = azure.host()
    before = state_of(host)
    section = {"managed": ["10.1.0.0/16", "fd00::/64"]}
    config = HostRoutingConfig.from_mapping({"azureVnetCleanup": section})

    result = run(azure.task(config, host=host))

    assert isinstance(result, CleanupResult)
    assert result.log_fields() == {"stale": 13, "deleted": 0, "conflicts": 4, "undo_file": ""}
    assert [each["severity"] for each in result.plan.to_mapping()["findings"]] == ["note"]
    assert caplog.text.count("stale: ") == 13
    assert "dryRun is true: nothing is deleted" in caplog.text
    assert state_of(host) == before
    assert host.files.writes == []
    task = azure.task(HostRoutingConfig(), host=host)
    assert isinstance(run(task), phases.Skip)
    assert str(task.plan()) == "nothing to delete"


@pytest.mark.parametrize("given", [{"ebtables": FakeEbtables()}, {"link_layer": FakeLinkLayer()}])
def test_a_host_with_another_kernel(tmp_path: Path, given: dict[str, Any]) -> None:
    """Without its rules and MAC addresses it is refused, and they without it; so is an image."""
    for host in (FakeHost(), Host(backend=NetlinkBackend), Host.local()):
        with pytest.raises(TypeError, match="leave out all three for this machine"):
            CleanStaleAzureVnet(azure.config(), host=host, **given)
    task = CleanStaleAzureVnet(azure.config(), host=Host.offline(str(tmp_path)))
    failure_of(run, task, of=BackendError, match="anything else on the host itself")


def test_it_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    """Nothing is deleted; the plan and a dry run have the same reason, and what is stale."""
    host = azure.host(files=FakeFiles(dict(CONFLIST)))
    error = failure(host)
    assert str(error).startswith("nothing was deleted: /etc/cni/net.d/10-azure.conflist names")

    plan = azure.task(azure.config(), host=host).plan()
    dry_run = clean(host, dry_run=True)
    assert caplog.text.count("10-azure.conflist names") == 2, "both runs log the error"
    assert plan.errors == error.lines
    assert str(plan).splitlines() == [*map(str, plan.entries), *plan.errors]
    assert (plan.would_fail, dry_run.plan.would_fail) == (plan.errors[0], "")
    assert len(plan.deletions) == 13
    assert dry_run.plan.deletions == plan.deletions


def with_broken_ebtables(kind: str, *, nth: int = 1) -> azure.AzureHost:
    host = azure.host()
    host.ebtables.fail(ebtables_error(kind), nth=nth)
    return host


FULL = {UNDO: "the disk is full"}
FAILURES: dict[str, tuple[Callable[[], azure.AzureHost], str]] = {
    "truncated state": (lambda: azure.host(files=FakeFiles({STATE_FILE: "{"})), "refused"),
    "no ebtables": (lambda: with_broken_ebtables("missing"), "refused"),
    "two backends": (lambda: with_broken_ebtables("wrong-backend"), "wrong-backend"),
    "the batch fails": (lambda: with_broken_ebtables("refused", nth=BATCH), "refused"),
    "no undo file": (lambda: azure.host(files=FakeFiles(broken=FULL)), ""),
}


@pytest.mark.parametrize(("make", "kind"), FAILURES.values(), ids=FAILURES)
def test_nothing_is_deleted(make: Callable[[], azure.AzureHost], kind: str) -> None:
    """The run fails before its first change, and no undo file stays."""
    assert kind_of(failure(make())) == kind


def test_a_cancellation() -> None:
    """Before the undo file is written, nothing is deleted; after it, all that is in the file."""
    host, ctx = azure.host(), phases.Context(clock=FakeClock())
    task = azure.task(azure.config(), host=host)
    host.ebtables.meanwhile(ctx.cancel)
    before = state_of(host)
    with pytest.raises(phases.Cancelled):
        phases.execute(task, ctx)
    assert state_of(host) == before

    host, ctx = azure.host(), phases.Context(clock=FakeClock())
    host.ebtables.meanwhile(ctx.cancel, nth=BATCH)
    result = phases.execute(azure.task(azure.config(), host=host), ctx)
    assert isinstance(result, CleanupResult)
    assert len(result.operations) == 13


@pytest.mark.parametrize("kind", ["rule", "neighbour"])
def test_a_pod_that_is_new(kind: str) -> None:
    """Rules and neighbours are read before devices, so the device of their pod is seen."""
    host = azure.host()
    mac = "02:00:00:00:00:55"

    def add_pod() -> None:
        host.ebtables.rules.extend(pod_rules("10.1.0.55", mac))
        host.link_layer.neighbours.append(Neighbour(as_ip("10.1.0.55"), mac, "azure0"))
        host.kernel.add_link(Link(name="azv5", index=55, kind="veth", master="azure0"))

    part = host.ebtables if kind == "rule" else host.link_layer
    part.meanwhile(add_pod)
    plan = azure.task(azure.config(), host=host).plan()
    fates = {entry.fate for entry in plan.entries if "10.1.0.55 " in entry.spec}
    assert fates == {"keep"}


def test_what_cannot_be_deleted() -> None:
    """A neighbour that was changed meanwhile stays, and so does a route that Linux keeps."""
    host = azure.host()
    theirs = Neighbour("10.1.0.5", "02:00:00:00:00:55", "azure0")
    replace = partial(host.link_layer.neighbours.__setitem__, 0, theirs)
    host.link_layer.meanwhile(replace, nth=2)  # the first is for the plan
    host.faults.fail("change", errno.ENOBUFS)
    error = failure_of(clean, host)
    assert kind_of(error) == "incomplete"
    neighbour, route = error.lines
    assert neighbour == f"{azure.NEIGHBOURS[0]} has changed since it was read, so it is not deleted"
    assert route.startswith("10.1.0.5/32 ")
    counts = f"11 of 13 entries were deleted, and are saved in {UNDO}; not deleted: "
    assert str(error).startswith(counts)
    effects = effects_of(error)
    assert (len(effects.operations), effects.files) == (11, (UNDO,))
    assert host.link_layer.neighbours[0] == theirs
    host.faults.fail("change", errno.ENOBUFS)
    assert str(failure_of(clean, host)).startswith("1 of 2 entries were deleted")


def no_answer() -> BackendError:
    return BackendError("no answer", kind="timeout")


HALFWAY: dict[str, tuple[Callable[[azure.AzureHost], None], dict[str, int]]] = {
    # nobody knows which of the rules are deleted
    "rules": (lambda host: host.ebtables.fail(ebtables_error("timeout"), nth=BATCH, done=True), {}),
    # after the plan and the first neighbour
    "neighbours": (
        lambda host: host.link_layer.fail(no_answer(), nth=3),
        {"rule": 10, "neighbour": 1},
    ),
    "routes": (lambda host: host.faults.fail("change", no_answer()), {"rule": 10, "neighbour": 2}),
}


@pytest.mark.parametrize(("fail", "deleted"), HALFWAY.values(), ids=HALFWAY)
def test_an_error_halfway(fail: Callable[[azure.AzureHost], None], deleted: dict[str, int]) -> None:
    """The error has what was deleted before it, and the undo file stays."""
    host = azure.host()
    host.link_layer.neighbours.append(Neighbour("10.1.0.7", azure.DEAD, "azure0"))
    fail(host)
    error = failure_of(clean, host)
    operations = effects_of(error).operations
    assert kind_of(error) == "timeout"
    assert Counter(operation.object.split()[0] for operation in operations) == deleted
    assert effects_of(error).files == (UNDO,)
    assert UNDO in host.files.texts


def test_the_example_of_the_fakes(capsys: pytest.CaptureFixture[str]) -> None:
    """It builds a node with a stale rule, neighbour and route, which the task would delete."""
    _, _, example = (azure_vnet.__doc__ or "").partition("::\n")
    exec(textwrap.dedent(example))  # noqa: S102  our own docstring
    deleted = re.findall(r"^ +delete (\w+)", capsys.readouterr().out, re.MULTILINE)
    assert deleted == ["rule", "neighbour", "route"]
