"""KeepAzureVnetClean: what is stale is reported by every command, and deleted by apply and the guard if that is repeated."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import phases
from hostrouting import Configure, Guard, HostRoutingConfig
from hostrouting.boot.installed import installed_config
from hostrouting.errors import ConfigError
from hostrouting.tasks.cleanup.keep import KeepAzureVnetClean
from hostrouting.tasks.results import CleanupResult
from hostrouting.testing import FakeFiles, FakeHost, FakeManager
from tests.support.azure_leftovers import BOOT, DEAD, LIVE, OWN, azure_config, azure_host, named, pod_rules
from tests.support.azure_node import MANAGED, AzureNode, azure_node, mac_of
from tests.support.azure_rules import pod_rules as rules_of
from tests.support.cli import say
from tests.support.guard_play import FakeService
from tests.support.tasks import run
from tests.support.waiting import wait_for

ONCE, REPEATED = azure_config(dry_run=True), azure_config(repeat=True)
KEPT = [*OWN, *pod_rules(9, LIVE)]
STALE = "12 of azure-vnet's entries are stale: rule PREROUTING"
ACTIVE = {"/etc/cni/net.d/10-azure.conflist": '{"plugins": [{"type": "azure-vnet"}]}'}


@pytest.fixture
def host() -> FakeHost:
    """A node with stale entries."""
    return azure_host(files=named("node-7"))


def written(config: HostRoutingConfig, folder: Path) -> str:
    """The path of a file with this configuration."""
    path = folder / "agent.json"
    path.write_text(config.to_json())
    return str(path)


class TestReported:
    """Without repeat, nothing is deleted."""

    def test_by_every_command(self, host: FakeHost, tmp_path: Path) -> None:
        """plan, apply and status, with --config and afterwards without it, name what is stale and the command."""
        before, config = list(host.bridge_rules.rules), written(ONCE, tmp_path)
        for code, *words in (
            (1, "plan", "--config", config),
            (1, "status", "--config", config),
            (0, "apply", "--config", config),
            (0, "apply", "--config", config),
            (0, "plan", "--config", config),
            (1, "status"),
        ):
            said = say(*words, host=host)
            text = " ".join(said.out.split())
            assert text.count(STALE) == 1, words
            assert "hostrouting clean azure-vnet --config" in text
            assert said.code == code, words
        assert host.bridge_rules.rules == before
        assert [path for path in host.files.texts if path.endswith(".undo")] == []

    def test_on_a_clean_host(self, host: FakeHost, tmp_path: Path) -> None:
        """Where nothing is stale, nothing is told."""
        run(Configure(REPEATED, host=host))
        config = written(ONCE, tmp_path)
        assert say("apply", "--config", config, host=host).code == 0
        said = say("status", host=host)
        assert "clean-up after azure-vnet" not in said.out
        assert say("apply", "--config", config, host=host).lines == [
            f"NOTHING TO DO: the host already matches {config}"
        ]

    def test_without_systemd(self, tmp_path: Path) -> None:
        """Nothing of it is a unit, so apply does not say that units wait for the next boot."""
        host = azure_host(files=named("node-7"), manager=FakeManager(running=False))
        said = say("apply", "--config", written(ONCE, tmp_path), host=host)
        assert host.layout.cleanup_path in said.out
        assert "systemd" not in said.err

    @pytest.mark.parametrize("config", [ONCE, REPEATED], ids=["once", "repeated"])
    def test_what_prevents_a_deletion(self, config: HostRoutingConfig) -> None:
        """While azure-vnet is active, nothing is deleted, and that is a warning: the run succeeds."""
        host = azure_host(files=FakeFiles({**BOOT, **ACTIVE}))
        before = list(host.bridge_rules.rules)
        look = Configure(config, host=host).preview()
        assert not look.conflicts
        assert not look.operations
        assert "azure-vnet manages this node's pods" in str(look)
        run(Configure(config, host=host))
        assert host.bridge_rules.rules == before

    def test_a_host_that_cannot_be_read(self, host: FakeHost) -> None:
        """A failing ebtables is a warning, which names it: routes and machines do not wait for a clean-up."""
        host.bridge_rules.elsewhere = KEPT
        run(Configure(REPEATED, host=host))
        [found] = KeepAzureVnetClean(REPEATED, host=host).change(up=True).others
        assert found.severity == "warning"
        assert "cannot be looked for: both backends of ebtables have rules" in found.sentence

    @pytest.mark.parametrize("path", ["/var/run/azure-vnet.json", "/etc/cni/net.d/10-azure.conflist"])
    def test_a_file_that_cannot_be_read(self, host: FakeHost, path: str) -> None:
        """So is a file of azure-vnet or of the CNI configuration that cannot be read, such as a folder."""
        host.files.texts.setdefault(path, "{}")
        host.files.strange[path] = "a folder"
        run(Configure(REPEATED, host=host))
        [found] = KeepAzureVnetClean(REPEATED, host=host).change(up=True).others
        assert found.severity == "warning"
        assert f"cannot be looked for: cannot read {path}" in found.sentence


class TestRepeated:
    """With repeat, what is stale is deleted."""

    def test_plan_and_apply(self, host: FakeHost, tmp_path: Path) -> None:
        """Plan shows each deletion, apply makes exactly these, after writing the undo file, and then nothing is left to do."""
        config = written(REPEATED, tmp_path)
        planned = say("plan", "--config", config, "--json", host=host).json["operations"]
        assert len(planned) == 12
        said = say("apply", "--config", config, "--json", host=host)
        assert said.code == 0
        assert said.json["operations"] == planned
        assert host.bridge_rules.rules == KEPT
        assert "/var/lib/hostrouting/azure-vnet-1.undo" in said.json["files"]["write"]
        assert say("plan", "--config", config, host=host).code == 0
        assert "IN FORCE: the clean-up after azure-vnet" in say("status", host=host).lines

    def test_the_guard(self, host: FakeHost) -> None:
        """The guard deletes what comes back as far as the pace allows, and reports each deletion as a repair."""
        run(Configure(REPEATED, host=host))
        first, second = pod_rules(5, DEAD)[:2]
        host.bridge_rules.rules += [first, second]
        task = KeepAzureVnetClean(REPEATED, host=host)
        ctx = phases.Context(observers=[])
        look = task.keep(ctx, lambda repair: second not in repair.key)
        assert [repair.key for repair in look.repairs] == [f"ebtables rule {first}"]
        assert host.bridge_rules.rules == [*KEPT, second]
        assert task.keep(ctx, lambda _repair: True).repairs[0].key == f"ebtables rule {second}"
        assert task.keep(ctx, lambda _repair: True).repairs == ()

    def test_only_what_the_plan_names(self, host: FakeHost) -> None:
        """An entry that became stale after the plan stays, and the result says so."""
        task = KeepAzureVnetClean(REPEATED, host=host)
        change = task.change(up=True)
        late = pod_rules(77, "02:00:00:00:00:77")[0]
        host.bridge_rules.rules.append(late)
        result = task.carry_out(phases.Context(observers=[]), change, up=True)
        assert isinstance(result, CleanupResult)
        assert host.bridge_rules.rules == [*KEPT, late]
        assert [entry.spec for entry in result.unapproved] == [late]

    def test_dry_run(self) -> None:
        """To repeat a clean-up that only reports is a contradiction."""
        with pytest.raises(ConfigError, match=r"azureVnetCleanup\.repeat: repeat deletes .* set dryRun to false"):
            HostRoutingConfig.from_mapping({"azureVnetCleanup": {"managed": ["10.0.0.0/8"], "repeat": True}})

    def test_a_deletion_that_fails(self, host: FakeHost) -> None:
        """The guard has looked at the host all the same: its answers about the routing stay valid."""
        host.files.broken["/var/lib/hostrouting/azure-vnet-1.undo"] = "No space left on device"
        before = list(host.bridge_rules.rules)
        look = KeepAzureVnetClean(REPEATED, host=host).keep(phases.Context(observers=[]), lambda _repair: True)
        assert "No space left on device" in look.failures["keep-azure-vnet-clean"]
        assert (look.unknown, look.repairs, host.bridge_rules.rules) == ((), (), before)

    def test_undo_files_do_not_pile_up(self, host: FakeHost) -> None:
        """Each deletion has its undo file; of a hundred and more, the last hundred stay."""
        run(Configure(REPEATED, host=host))
        rule = pod_rules(5, DEAD)[0]
        task = KeepAzureVnetClean(REPEATED, host=host)
        for _ in range(102):
            host.bridge_rules.rules.append(rule)
            task.keep(phases.Context(observers=[]), lambda _repair: True)
        numbers = [int(path.rpartition("-")[2][:-5]) for path in host.files.texts if path.endswith(".undo")]
        assert sorted(numbers) == [*range(4, 104)]


def test_a_file_of_another_version(host: FakeHost) -> None:
    """A section that this version does not know counts as missing, and no command fails because of it."""
    run(Configure(ONCE, host=host))
    host.files.texts[host.layout.cleanup_path] = json.dumps({"settings": {"managed": ["10.0.0.0/8"], "later": 1}})
    assert installed_config(host) is None


@pytest.mark.linux
@pytest.mark.needs("root", "ebtables-nft")
class TestOnLinux:
    """A guard on a node as azure-vnet leaves it, with real rules and packets."""

    @pytest.fixture
    def lab(self) -> Iterator[AzureNode]:
        """A node in bridge mode."""
        with azure_node() as lab:
            yield lab

    def test_the_guard_makes_a_new_pod_reachable(self, lab: AzureNode) -> None:
        """A pod gets an address whose old rules are still there: the guard deletes them, and packets arrive."""
        settings = {"managed": MANAGED, "dryRun": False, "repeat": True}
        config = HostRoutingConfig(azure_vnet_cleanup=settings, guard={"enabled": True, "program": "/opt/hostrouting"})
        service = FakeService()

        @phases.task("pods")
        def pods(ctx: phases.Context) -> None:
            with lab.node.inside():
                ctx.sleep(0.5)
                lab.leave(mac_of(9), "10.1.0.6", times=2)
                lab.routed_pod("new", mac_of(2), "10.1.0.6")
                wait_for("a packet to arrive", lambda: lab.arrives("new", "10.1.0.6", patience=0.5))
                ctx.cancel("a packet has arrived")

        @phases.task("guard")
        def guard(ctx: phases.Context) -> None:
            with lab.node.inside():
                Guard(config, host=lab.host, service=service).do(ctx)

        phases.run(phases.parallel(guard, pods), observers=[])
        assert not [rule for rule in lab.rules() if "10.1.0.6" in rule]
        assert any(f"repaired ebtables rule {rules_of('10.1.0.6', mac_of(9))[0]}" in text for text in service.texts)
