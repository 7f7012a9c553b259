"""CleanStaleAzureVnet, on hosts in memory."""

import errno
import json
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import phases
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.errors import CleanupError, FileError
from hostrouting.host.effects import effects_of
from hostrouting.host.host import Host
from hostrouting.kernel import ebtables as refusal
from hostrouting.kernel.neighbours import EthernetLink, Neighbour, PeerMac
from hostrouting.model.route import Route
from hostrouting.tasks.cleanup.azure_vnet import CleanStaleAzureVnet
from hostrouting.tasks.cleanup.plan import CleanupPlan
from hostrouting.tasks.configure import Configure
from hostrouting.tasks.results import CleanupResult
from hostrouting.testing import FakeFiles, FakeHost, MemoryEbtables
from phases.testing import FakeClock
from tests.support.azure_leftovers import DEAD, LINKS, LIVE, OWN, R2, azure_config, azure_host, pod_rules, stale_rules
from tests.support.examples import scaled
from tests.support.kinds import kind_of
from tests.support.tasks import LAYOUT, failure_of, run

STALE = R2.format("10.240.0.5", DEAD)
STATE = "/var/run/azure-vnet.json"
UNDO = "/var/lib/hostrouting/azure-vnet-1.undo"
CONFLIST = {"/etc/cni/net.d/10-azure.conflist": json.dumps({"plugins": [{"type": "azure-vnet"}]})}
POD = EthernetLink(name="azv5", index=9, kind="veth", master="azure0", peer=PeerMac(DEAD))


def state_of(host: FakeHost) -> tuple[str, str, str]:
    """Rules, links with neighbours, and routes, as text."""
    return str(host.bridge_rules), str(host.neighbours), str(host.kernel)


def clean(host: FakeHost, **changed: Any) -> CleanupResult:
    """Run the task; what it did."""
    result = run(CleanStaleAzureVnet(azure_config(**changed), host=host))
    assert isinstance(result, CleanupResult)
    return result


def look(host: FakeHost, **changed: Any) -> CleanupPlan:
    """What the task would do."""
    return CleanStaleAzureVnet(azure_config(**changed), host=host).plan(phases.Context(observers=[]))


def failure(host: FakeHost, **changed: Any) -> Any:
    """Run the task; the error that ends it, after which nothing is changed."""
    before = state_of(host)
    error = failure_of(clean, host, **changed)
    assert state_of(host) == before
    assert not host.files.texts.keys() & {UNDO}
    return error


def restoring(text: str) -> list[str]:
    """The commands in an undo file."""
    return [line for line in text.splitlines() if not line.startswith("#")]


class TestApply:
    """Exactly the stale entries are deleted."""

    def test_all_of_it(self) -> None:
        """Rules with duplicates, the neighbour and both routes go, in that order; a live pod and the node's rules stay."""
        host = azure_host()
        result = clean(host)
        assert host.bridge_rules.rules == [*OWN, *pod_rules(9, LIVE)]
        assert [it.kind for it in result.deleted] == ["rule"] * 9 + ["neighbour"] + ["route"] * 2
        assert result.log_fields() == {"stale": 12, "deleted": 12, "conflicts": 5, "undo_file": UNDO}
        assert result.after is not None
        assert result.after.is_empty
        assert "10.240.0.9" in str(host.neighbours)
        assert "10.240.0.5 " not in str(host.kernel)
        assert "10.240.0.8 " in str(host.kernel)

    def test_one_batch(self) -> None:
        """All rules go in one call, so that no frame meets a part of them."""
        host = azure_host()
        calls: list[int] = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(host.bridge_rules, "delete", lambda lines: calls.append(len(lines)))
            with pytest.raises(phases.TaskFailed):  # for they are there afterwards
                clean(host)
        assert calls == [9]

    def test_a_second_run(self) -> None:
        """A second run finds nothing, and writes nothing."""
        host = azure_host()
        clean(host)
        before, writes = state_of(host), len(host.files.writes)
        result = clean(host)
        assert result.log_fields() == {"stale": 0, "deleted": 0, "conflicts": 5}
        assert state_of(host) == before
        assert len(host.files.writes) == writes

    def test_what_is_written_first(self) -> None:
        """The undo file names everything before the first deletion, and only root can read it."""
        host = azure_host()
        seen: list[str] = []
        host.bridge_rules.meanwhile(lambda: seen.append(host.files.texts[UNDO]), nth=3)
        clean(host)
        assert len(restoring(seen[0])) == 12
        assert seen == [host.files.texts[UNDO]]
        assert host.files.modes[UNDO] == 0o600

    def test_where_it_cannot_be_written(self) -> None:
        """Then nothing is deleted."""
        host = azure_host(files=FakeFiles(broken={UNDO: "the disk is full"}))
        assert isinstance(failure(host), FileError)

    def test_each_run_has_a_file_of_its_own(self) -> None:
        """A later run leaves the files of earlier ones alone."""
        host = azure_host()
        clean(host)
        host.bridge_rules.rules.append(STALE)
        assert clean(host).undo_file == UNDO.replace("-1.", "-2.")

    def test_the_lock(self) -> None:
        """The task locks the host while it works, and releases it."""
        host = azure_host()
        locked: list[bool] = []
        host.bridge_rules.meanwhile(lambda: locked.append(LAYOUT.lock_path in host.files.locked), nth=3)
        clean(host)
        assert locked == [True]
        assert not host.files.locked

    @given(st.lists(st.sampled_from([*OWN, *stale_rules(), *pod_rules(9, LIVE)]), max_size=12))
    @settings(max_examples=scaled(20))
    def test_before_less_after_is_the_plan(self, rules: list[str]) -> None:
        """For any rules: exactly the planned ones are deleted."""
        host = azure_host(bridge_rules=MemoryEbtables(rules))
        plan = look(host)
        clean(host)
        left = list(rules)
        for deletion in plan.deletions:
            if deletion.kind == "rule":
                left.remove(deletion.spec)
        assert host.bridge_rules.rules == left


class TestDryRun:
    """Without an order to delete, the task only reports."""

    def test_nothing_is_changed(self) -> None:
        """Rules, neighbours, routes and files are as before, and the lock is not taken."""
        host = azure_host()
        before = state_of(host)
        result = clean(host, dry_run=True)
        assert result.log_fields() == {"stale": 12, "deleted": 0, "conflicts": 5, "dry_run": True}
        assert state_of(host) == before
        assert not host.files.writes

    def test_it_is_the_default(self) -> None:
        """A section that names networks only deletes nothing."""
        host = azure_host()
        config = HostRoutingConfig.from_mapping({"azureVnetCleanup": {"managed": ["10.240.0.0/16"]}})
        result = run(CleanStaleAzureVnet(config, host=host))
        assert isinstance(result, CleanupResult)
        assert result.is_dry_run

    def test_the_plan(self) -> None:
        """The plan of a pipeline shows each deletion with its reason, and changes nothing."""
        host = azure_host()
        shown = str(phases.plan(CleanStaleAzureVnet(azure_config(), host=host)))
        assert f"delete rule {STALE}    # 10.240.0.5 is managed by another CNI" in shown
        assert not host.files.writes

    def test_without_the_section(self) -> None:
        """Nothing is asked of the host."""
        host = azure_host()
        host.bridge_rules.fault = refusal.missing()
        task = CleanStaleAzureVnet(HostRoutingConfig(), host=host)
        assert run(task) is not None
        assert task.plan(phases.Context(observers=[])).is_empty

    def test_an_image(self, tmp_path: Any) -> None:
        """An image has no kernel, and nothing to clean."""
        host = Host.offline(str(tmp_path))
        report = phases.run(CleanStaleAzureVnet(azure_config(), host=host), observers=[])
        assert report.status is phases.Status.SKIPPED

    def test_configure_does_not_run_it(self) -> None:
        """A deletion is asked for by name: Configure with the section deletes nothing."""
        host = azure_host()
        before = state_of(host)
        run(Configure(azure_config(), host=host))
        assert state_of(host) == before


class TestRefused:
    """What speaks against all of it: each has its own answer, and nothing is deleted."""

    @pytest.mark.parametrize(
        ("files", "why"),
        [
            (CONFLIST, "/etc/cni/net.d/10-azure.conflist says that azure-vnet manages this node's pods"),
            ({STATE: '{"Network": {"Exte'}, f"azure-vnet's state file {STATE} cannot be read: it is not JSON"),
        ],
    )
    def test_its_reason(self, files: dict[str, str], why: str) -> None:
        """The error says it; so do the plan and a dry run, which still show what is stale."""
        host = azure_host(files=FakeFiles(dict(files)))
        error = failure(host)
        assert isinstance(error, CleanupError)
        assert error.kind == "refused"
        assert str(error).startswith(f"nothing was deleted: {why}")
        plan = look(host)
        assert plan.hindrances == error.reasons
        assert clean(host, dry_run=True).plan == plan

    def test_active_and_nothing_stale(self) -> None:
        """An active azure-vnet is reported even if there is nothing to delete."""
        host = FakeHost(files=FakeFiles(dict(CONFLIST)))
        assert kind_of(failure(host)) == "refused"

    def test_ebtables_cannot_be_had(self) -> None:
        """With a bridge of azure-vnet, a missing ebtables is an error; without a bridge, no rule has an effect."""
        for error in (refusal.missing(), refusal.not_loaded()):
            host = azure_host()
            host.bridge_rules.fault = error
            assert kind_of(failure(host)) == "refused"
            host.neighbours.links = [link for link in LINKS if link.name != "azure0"]
            assert {it.kind for it in clean(host).deleted} == {"route"}
        host = azure_host()
        host.bridge_rules.fault = refusal.not_permitted()
        assert failure(host) is host.bridge_rules.fault

    def test_both_backends(self) -> None:
        """If both backends have rules, it is not known which one the node uses."""
        host = azure_host(bridge_rules=MemoryEbtables(stale_rules(), elsewhere=[STALE]))
        assert kind_of(failure(host)) == "wrong-backend"


class TestMeanwhile:
    """Other processes are at work too."""

    def test_a_pod_comes_alive(self) -> None:
        """A pod that comes alive after the first look keeps everything."""
        host = azure_host()
        host.neighbours.meanwhile(lambda: host.neighbours.links.append(POD), nth=2)
        gone = {it.spec for it in clean(host).deleted}
        assert gone == {*pod_rules(6, "02:00:00:00:00:06"), "10.240.0.7/32 dev azv2 proto boot scope link metric 7"}

    def test_what_will_be_deleted_is_logged_first(self, caplog: pytest.LogCaptureFixture) -> None:
        """Each deletion is a line of the log before the first of them."""
        host = azure_host()
        lines: list[str] = []
        host.bridge_rules.meanwhile(lambda: lines.extend(record.getMessage() for record in caplog.records), nth=3)
        with caplog.at_level("INFO"):
            clean(host)
        assert sum("will delete" in line for line in lines) == 12

    @pytest.mark.parametrize("times", [1, 2, 3, 4])
    def test_a_rule_is_gone_before_the_batch(self, times: int) -> None:
        """A batch that is refused for this reason is planned again, up to three times; then rules are deleted one by one."""
        host = azure_host()
        ebtables = host.bridge_rules
        gone = stale_rules()[:times]
        for at, line in enumerate(gone):  # looks are calls 1, 2, 4, 6, 8; each batch follows one
            ebtables.meanwhile(partial(ebtables.rules.remove, line), nth=3 + 2 * at)
        result = clean(host)
        assert ebtables.rules == [*OWN, *pod_rules(9, LIVE)]
        rules = [it.spec for it in result.deleted if it.kind == "rule"]
        assert sorted([*rules, *gone]) == sorted(stale_rules())
        # What another process has deleted is not ours to bring back.
        named = [line for line in restoring(host.files.texts[UNDO]) if line.startswith("ebtables")]
        assert sorted(named) == sorted(f"ebtables-nft -t nat -A {rule}" for rule in rules)

    def test_there_is_no_time_for_all_of_it(self) -> None:
        """Deleting rules one by one may take ten seconds; the rest is named, and neighbours and routes are deleted."""
        host, clock = azure_host(), FakeClock(autojump=False)
        ebtables = host.bridge_rules
        for at, line in enumerate(stale_rules()[:3]):
            ebtables.meanwhile(partial(ebtables.rules.remove, line), nth=3 + 2 * at)
        ebtables.meanwhile(lambda: clock.advance(9.9), nth=9)  # with the first deletion by itself
        ebtables.meanwhile(lambda: clock.advance(0.1), nth=10)
        task = CleanStaleAzureVnet(azure_config(), host=host)
        error = failure_of(phases.execute, task, phases.Context(clock=clock, observers=[]), of=CleanupError)
        assert error.kind == "incomplete"
        assert str(error).startswith(f"5 of 9 entries were deleted, and are saved in {UNDO}; not deleted: rule ")
        assert [reason.endswith("change the rules; try again") for reason in error.reasons] == [True] * 4
        assert len(restoring(host.files.texts[UNDO])) == 5

    def test_an_ebtables_that_is_too_old(self) -> None:
        """Nothing is deleted, neither in a batch nor one by one, and no undo file is left."""
        host = azure_host()
        host.bridge_rules.fail(refusal.too_old("ebtables-legacy-restore", ""), nth=3)
        assert kind_of(failure_of(clean, host)) == "too-old"
        assert host.bridge_rules.writes == []
        assert UNDO not in host.files.texts

    def test_azure_vnet_comes_back_before_the_batch(self) -> None:
        """A new look that refuses leaves nothing deleted, and no file that says otherwise."""
        host = azure_host()
        ebtables = host.bridge_rules

        def come_back() -> None:
            ebtables.rules.remove(STALE)
            host.files.texts.update(CONFLIST)

        ebtables.meanwhile(come_back, nth=3)
        error = failure_of(clean, host)
        assert kind_of(error) == "refused"
        assert ebtables.writes == []
        assert UNDO not in host.files.texts
        assert effects_of(error).files == ()

    def test_another_neighbour_takes_its_place(self) -> None:
        """An entry whose MAC address has changed since the look stays, and is named."""
        host = azure_host()
        links = host.neighbours
        mine = Neighbour("10.240.0.5", "02:00:00:00:00:55", "azure0")

        def change() -> None:
            links.neighbours = [
                mine if neighbour.dev == mine.dev and neighbour.ip == mine.ip else neighbour
                for neighbour in links.neighbours
            ]

        links.meanwhile(change, nth=3)  # after two looks
        error = failure_of(clean, host, of=CleanupError)
        assert error.kind == "incomplete"
        assert error.reasons == (
            f"10.240.0.5 dev azure0 lladdr {DEAD} PERMANENT has changed since it was read, so it is kept",
        )
        assert str(error).startswith(f"11 of 12 entries were deleted, and are saved in {UNDO}; not deleted: 10.240.0.5")
        assert mine in links.neighbours

    def test_a_route_that_is_gone(self) -> None:
        """A route that another program has deleted is not counted as deleted by us."""
        host = azure_host()
        route = Route.to("10.240.0.5/32", dev="azure0", protocol=4)
        host.neighbours.meanwhile(lambda: host.kernel.ip_route("delete", route), nth=3)
        assert len(clean(host).deleted) == 11
        assert "10.240.0.5/32" not in host.files.texts[UNDO]

    def test_a_route_that_cannot_be_deleted(self) -> None:
        """What the kernel refuses is named, with what was done."""
        host = azure_host()
        host.kernel.faults.fail("change", errno.ENOBUFS)
        error = failure_of(clean, host, of=CleanupError)
        assert error.kind == "incomplete"
        assert len(effects_of(error).operations) == 11
        assert effects_of(error).files == (UNDO,)

    def test_it_is_there_again(self) -> None:
        """What comes back at once shows that azure-vnet is active."""
        host = azure_host()
        ebtables = host.bridge_rules
        ebtables.meanwhile(lambda: ebtables.rules.append(STALE), nth=4)  # at the last look
        error = failure_of(clean, host, of=CleanupError)
        assert error.kind == "incomplete"
        assert error.reasons == (f"rule {STALE} was added again: azure-vnet or another program is active",)

    def test_an_error_on_the_way(self) -> None:
        """After a timeout it is unknown what was deleted, so the undo file has everything."""
        host = azure_host()
        host.bridge_rules.fail(refusal.timed_out("delete 9 rules", 10), nth=3, done=True)
        assert kind_of(failure_of(clean, host)) == "timeout"
        assert len(restoring(host.files.texts[UNDO])) == 12
