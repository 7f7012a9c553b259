"""Preflight, on hosts that exist in memory: what it finds, and that it changes nothing."""

import errno
import json
import os
from pathlib import Path
from typing import Any, ClassVar
from unittest import mock

import attrs
import pytest

import phases
from hostrouting.boot.gate import Gate, Part
from hostrouting.config.settings import GuardConfig, HostRoutingConfig
from hostrouting.config.values import Upkeep
from hostrouting.errors import BackendError, BackendKind, FileError, ManagerError, PreflightFailed, ProgramError
from hostrouting.finding import Finding
from hostrouting.host.effects import Effects
from hostrouting.host.host import Host
from hostrouting.host.metadata import Reply
from hostrouting.host.systemd import UnitState
from hostrouting.kernel.ebtables import missing
from hostrouting.kernel.programs import Rights
from hostrouting.model.route import Route
from hostrouting.model.rule import default_rules
from hostrouting.tasks.base import HostTask
from hostrouting.tasks.cleanup.azure_vnet import CleanStaleAzureVnet
from hostrouting.tasks.configure import Configure
from hostrouting.tasks.preflight import TOOLS, Preflight, PreflightResult, gated_findings
from hostrouting.testing import FakeFiles, FakeHost, FakeManager, MemoryBackend, h200, plain_vm
from tests.support.azure_leftovers import MANAGED, azure_host
from tests.support.kinds import kind_of
from tests.support.tasks import CIDR, LAYOUT, REPAIR, config, configured, failure_of, manager_of, run
from tests.tables.gate_openings import OPENINGS, Opening

WHOLE = config(*REPAIR, cidrs=(CIDR,))
UNITS = LAYOUT.unit_directory
PROBES = HostRoutingConfig.from_mapping(
    {"probeRewrite": {"enabled": True, "interfaces": ["eth0"], "condition": "always"}}
)


BARE_ROOT, ANYONE = Rights(changes_network=False), Rights(is_root=False, changes_network=False)


def look(host: Host, wanted: HostRoutingConfig = WHOLE) -> PreflightResult:
    """The findings."""
    return Preflight(wanted, host=host).plan(phases.Context(observers=[]))


def told(host: Host, wanted: HostRoutingConfig = WHOLE) -> list[tuple[str, str, str]]:
    """The name, the severity and the target of each finding."""
    return [(finding.name, finding.severity, finding.target) for finding in look(host, wanted).findings]


def foreign() -> MemoryBackend:
    """An H200 node where another program's route has the key of one of ours."""
    kernel = h200()
    kernel.ip_route("add", Route.to(REPAIR[0], dev="ib0", protocol=186))
    return kernel


def test_nothing_in_the_way() -> None:
    """A host that is ready has no findings, before it is configured and after."""
    host = FakeHost(kernel=h200())
    assert look(host) == PreflightResult()
    run(Configure(WHOLE, host=host))
    assert look(host) == PreflightResult()
    assert str(look(host)) == "nothing found"
    assert look(host).worst == "note"


def test_nothing_is_configured() -> None:
    """Without a configuration nothing is needed, so nothing can be missing."""
    host = FakeHost(files=FakeFiles(frozen=True), find_program=lambda _name: None)
    assert not told(host, HostRoutingConfig())


@pytest.mark.parametrize("is_configured", [False, True])
def test_nothing_is_changed(*, is_configured: bool) -> None:
    """No file is written, linked, removed or locked; manager and kernel are only read."""
    host = FakeHost(kernel=h200())
    if is_configured:
        run(Configure(WHOLE, host=host))
        del host.files.texts[LAYOUT.gate_unit_path]
    manager = host.manager
    assert manager is not None
    host.files.writes.clear()
    manager.calls.clear()
    before = host.kernel.reopen().snapshot()
    told(host, HostRoutingConfig(WHOLE.static_routes, WHOLE.route_overlap, probe_rewrite=PROBES.probe_rewrite))
    assert not host.files.writes
    assert not manager.calls
    assert manager.asked
    assert host.tables.writes == []
    assert host.kernel.reopen().snapshot() == before


def case(*expected: str, wanted: HostRoutingConfig = WHOLE, **host: Any) -> tuple[object, ...]:
    """The name, severity and target of a finding on an H200 node with these differences."""
    return expected, wanted, host


def lacking(tool: str) -> dict[str, Any]:
    """A host without this program."""
    return {"find_program": lambda name: None if tool in name else name}


def with_files(texts: dict[str, str]) -> dict[str, Any]:
    """A host with these files."""
    return {"files": FakeFiles(texts)}


def without_kernel(kind: BackendKind) -> dict[str, Any]:
    """A host on which netlink cannot be opened."""
    return {"backend": mock.Mock(side_effect=BackendError("none", kind=kind))}


NO_DEFAULT = MemoryBackend()
HALF = "172.16.128.0\u2013172.16.255.255"
FIRST = f"/run/systemd/system.control/{LAYOUT.gate_unit}"
OURS, MACHINES = f"{UNITS}/{LAYOUT.routes_unit}.d/x.conf", f"{UNITS}/{LAYOUT.machine_unit}"
FORWARDING = "net.ipv6.conf.all.forwarding"
PATHS = {"unit": LAYOUT.routes_unit_path, "script": LAYOUT.routes_script_path, "link": LAYOUT.routes_enabled_path}
CASES: dict[str, tuple[object, ...]] = {
    "a key is held": case("route-conflict", "error", REPAIR[0], kernel=foreign()),
    "no default route": case("route-waits", "warning", REPAIR[0], kernel=NO_DEFAULT),
    "an unknown device": case("route-waits", "warning", REPAIR[0], wanted=config(REPAIR[0], dev="eth9")),
    "a route that does not last": case(
        *("route-conflict", "error", "10.0.0.0/24"),
        wanted=config("10.0.0.0/24", gateway="10.0.0.1", dev="eth0"),
        kernel=plain_vm(),
    ),
    "an overlap in STRICT": case("overlap", "error", HALF, wanted=config(REPAIR[0], cidrs=(CIDR,))),
    "an overlap in WARN": case("overlap", "warning", HALF, wanted=config(REPAIR[0], cidrs=(CIDR,), mode="WARN")),
    "no device is expected": case(
        "no-default-route", "warning", "IPv4 default route", wanted=config(cidrs=(CIDR,)), kernel=NO_DEFAULT
    ),
    "no netlink": case("kernel", "error", "", **without_kernel("unavailable")),
    "not permitted": case("kernel", "warning", "", **without_kernel("not-permitted"), rights=lambda: ANYONE),
    "not permitted, as root": case("kernel", "error", "", **without_kernel("not-permitted")),
    "root without CAP_NET_ADMIN": case("kernel", "error", "CAP_NET_ADMIN", rights=lambda: BARE_ROOT),
    "another user": case("kernel", "warning", "CAP_NET_ADMIN", rights=lambda: ANYONE),
    "the ip of busybox": case("tool", "error", "ip", version_of=lambda _path: "BusyBox v1.35.0 () multi-call binary."),
    "no nft": case("tool", "error", "nft", wanted=PROBES, **lacking("nft")),
    "no awk": case("tool", "error", "awk", **lacking("awk")),
    "probes cannot be forwarded": case(
        *("probe-rewrite", "note", FORWARDING),
        wanted=PROBES,
        kernel=plain_vm(),
        **with_files({f"/proc/sys/{FORWARDING.replace('.', '/')}": "0\n"}),
    ),
    "no systemd": case("systemd", "warning", "systemd", manager=FakeManager(running=False)),
    "no room for a daemon-reload": case("systemd", "error", "systemd", manager=FakeManager(room=(16 << 20) - 1)),
    "an old systemd": case("systemd", "error", "systemd", manager=FakeManager(version="246.9-1")),
    "a systemd without a number": case("systemd", "warning", "systemd", manager=FakeManager(version="unknown")),
    "a masked unit": case("file", "error", LAYOUT.gate_unit_path, **with_files({LAYOUT.gate_unit_path: ""})),
    "a foreign unit": case("file", "error", PATHS["unit"], **with_files({PATHS["unit"]: "[Service]\nExecStart=/x\n"})),
    "a fifo": case("file", "error", PATHS["script"], files=FakeFiles(strange={PATHS["script"]: "a fifo"})),
    "a fifo in the place of a link": case(
        "file", "error", PATHS["link"], files=FakeFiles(strange={PATHS["link"]: "a fifo"})
    ),
    "a unit that comes before ours": case("unit", "error", FIRST, **with_files({FIRST: "[Service]\n"})),
    "a drop-in of our unit": case("unit", "warning", OURS, **with_files({OURS: "[Service]\n"})),
    "a drop-in that resets the commands of machines": case(
        "unit", "warning", LAYOUT.machine_unit, **with_files({f"{MACHINES}.d/9.conf": "[Service]\nExecStartPre=\n"})
    ),
    "machines are masked": case("unit", "error", LAYOUT.machine_unit, **with_files({MACHINES: ""})),
    "the original's script": case(
        "file", "note", PATHS["script"], **with_files({PATHS["script"]: "#!/bin/sh\nip route add x\n"})
    ),
    "a file in the place of a folder": case(
        "file", "error", LAYOUT.state_directory, **with_files({LAYOUT.state_directory: ""})
    ),
    "another run": case("lock", "warning", LAYOUT.lock_path, files=FakeFiles(locked={LAYOUT.lock_path})),
}


@pytest.mark.parametrize("version", ["247.3-7+deb11u4", "257~rc1"])
def test_a_systemd_that_will_do(version: str) -> None:
    """From 247 on there is nothing to say."""
    assert not told(FakeHost(kernel=h200(), manager=FakeManager(version=version)))


@pytest.mark.parametrize(("expected", "wanted", "host"), CASES.values(), ids=CASES)
def test_what_is_found(expected: object, wanted: HostRoutingConfig, host: dict[str, Any]) -> None:
    """Each thing that can be in the way is found, with its severity and its target."""
    assert expected in told(FakeHost(**{"kernel": h200(), **host}), wanted)


def test_the_next_machine() -> None:
    """On the same configuration, a machine where InfiniBand has the range is held, and one without it is not."""
    wanted = config(cidrs=(CIDR,))
    assert not told(FakeHost(kernel=plain_vm()), wanted)
    assert [severity for name, severity, _ in told(FakeHost(kernel=h200()), wanted)] == ["error", "note"]


def test_many_routes() -> None:
    """What many routes lack is one finding, which names the first of them and counts the others."""
    wanted = config(*(f"9.{number}.0.0/16" for number in range(200)))
    [found] = look(FakeHost(kernel=MemoryBackend()), wanted).findings
    told = "200 routes, such as 9.0.0.0/16, need an IPv4 default route; apply would wait up to 30 s for it, then fail; "
    assert str(found).startswith(told)


def test_the_rule_for_main_is_missing() -> None:
    """Each remedy adds the rule, and none a default route, which exists."""
    kernel = h200()
    kernel.delete_rule(default_rules(4)[1])
    found = {finding.name: finding for finding in look(FakeHost(kernel=kernel)).findings}
    assert found.keys() == {"route-waits", "no-default-route", "missing-rule"}
    assert all("ip rule add pref 32766 lookup main" in str(finding) for finding in found.values())
    assert not any("add a default route" in str(finding) for finding in found.values())


def test_what_configure_waits_for() -> None:
    """A missing default route is a warning, because apply would wait for it; without a wait it is an error."""
    host = FakeHost(kernel=MemoryBackend())
    assert {finding.severity for finding in look(host).findings} == {"warning"}
    run(Preflight(WHOLE, host=host))
    failure_of(
        run,
        Preflight(WHOLE, host=host, wait=0),
        match=r"172.16.0.0/17, need an IPv4 default route; apply would fail at once",
    )


def test_an_overlap_that_a_route_may_close_later() -> None:
    """If a configured route cannot be installed yet, an escape is a warning; elsewhere it is an error."""
    wanted = config(REPAIR[0], dev="eth9", cidrs=(CIDR,))
    both = config(*REPAIR, dev="eth9", cidrs=(CIDR,))
    host = FakeHost(kernel=h200())
    assert [severity for name, severity, _ in told(host, wanted) if name == "overlap"] == ["error"]
    assert [severity for name, severity, _ in told(host, both) if name == "overlap"] == ["warning"]


def test_words_of_no_default_route() -> None:
    """Preflight does not wait for the route: the finding says what apply would do, and which device may be meant."""
    [found] = look(FakeHost(kernel=MemoryBackend()), config(cidrs=(CIDR,))).findings
    assert str(found) == (
        "there is no IPv4 default route that is in use, so no device is expected; apply would wait up to 30 s for one;"
        " without one, in mode STRICT apply would fail, and gated units could not start; add a default route, or name"
        " routeOverlap.expectedDevs: no device is up and has an IPv4 address"
    )


def test_words_of_an_overlap() -> None:
    """A finding is a sentence without the capitals of the journal, and another one has the routes to add."""
    found = [str(finding) for finding in look(FakeHost(kernel=h200()), config(cidrs=(CIDR,))).findings]
    assert found[0].startswith("expected CIDR 172.16.0.0/16 (")
    assert found[0].endswith("; in mode STRICT apply would fail, and gated units could not start")
    in_warn = look(FakeHost(kernel=h200()), config(cidrs=(CIDR,), mode="WARN")).findings[0]
    assert str(in_warn).endswith("; in mode WARN the check keeps no gated unit from starting")
    assert found[1].startswith('add to staticRoutes.routes: [{"destination": "172.16.0.0/17"')


def test_an_entry_that_cannot_be_installed() -> None:
    """If another program's route is in the way, what to change includes the entry to delete, and not only new routes."""
    kernel = h200()
    kernel.ip_route("add", Route.to("172.16.128.0/17", dev="ib0", protocol=4))
    [action] = [finding for finding in look(FakeHost(kernel=kernel), WHOLE).findings if finding.name == "action"]
    assert action.facts["routes"][0]["destination"] == "172.16.128.0/18"
    assert str(action).endswith(
        "; in staticRoutes.routes, delete the entry for 172.16.128.0/17: another program's route has this destination"
        " and metric, and hostrouting leaves that route as it is"
    )


def test_one_cause_is_one_finding() -> None:
    """A file that several tasks cannot read is one finding, about files."""
    files = FakeFiles(strange={LAYOUT.routes_script_path: "a directory"})
    assert told(FakeHost(kernel=h200(), files=files)) == [("file", "error", LAYOUT.routes_script_path)]


def test_one_read_only_file_system() -> None:
    """Folders that cannot be written into for one reason are one finding, which names them all."""
    found = look(FakeHost(kernel=h200(), files=FakeFiles(frozen=True))).findings
    assert [(it.name, it.severity, it.target) for it in found] == [("file", "error", LAYOUT.config_directory)]
    assert f"{LAYOUT.config_directory}, " in str(found[0])
    assert str(found[0]).endswith(": Read-only file system; remount it writable")


@pytest.mark.parametrize(("wanted", "severity"), [(WHOLE, "warning"), (PROBES, "error")])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS])
def test_run_is_full(wanted: HostRoutingConfig, severity: str, number: int) -> None:
    """The check works without its markers; the rewrite needs its record. Kills: an error for any folder."""
    folders = (LAYOUT.runtime_directory, LAYOUT.state_directory)
    files = FakeFiles(broken=dict.fromkeys(folders, f"{os.strerror(number)}; mend it"))
    host = FakeHost(kernel=h200(dual_stack=True), files=files)
    assert ("file", severity, min(folders)) in told(host, wanted)


class Denied(FakeFiles):
    """Files of a host on which nothing may be written."""

    def require_writable(self, folder: str) -> None:
        """See Files."""
        raise FileError(f"cannot write into {folder}: no", path=folder, errno=1, reason="no; lsattr")


def test_denied() -> None:
    """To root a denial is the obstacle that it is, and to another user nothing is known."""
    [found] = look(FakeHost(kernel=h200(), files=Denied())).findings
    assert (found.name, found.severity) == ("file", "error")
    assert str(found).endswith(": no; lsattr")
    anyone = look(FakeHost(kernel=h200(), files=Denied(), rights=lambda: ANYONE)).findings
    assert [(it.name, it.severity) for it in anyone] == [("kernel", "warning"), ("file", "warning")]


@pytest.mark.parametrize("rights", [BARE_ROOT, ANYONE])
def test_rights_that_are_not_needed(rights: Rights) -> None:
    """If nothing in the kernel has to change, the right to change it is not needed."""
    host = configured(WHOLE)
    assert not told(attrs.evolve(host, rights=lambda: rights))
    assert not told(FakeHost(rights=lambda: rights), config(cidrs=(CIDR,)))


@pytest.mark.parametrize("where", ["service.d", "static-.service.d", "host-.service.d", "check-route-.service.d"])
def test_drop_ins_of_many_units(where: str) -> None:
    """A drop-in for all services, or for all of a prefix, is found if it can keep our scripts from running."""
    path = f"{UNITS}/{where}/50.conf"
    text = "[Service]\nExecCondition=/bin/false\n#Type=simple\nType=oneshot\n SuccessExitStatus = 1\n"
    found = [str(finding) for finding in look(FakeHost(kernel=h200(), files=FakeFiles({path: text}))).findings]
    settings = ("ExecCondition=/bin/false", "SuccessExitStatus=1")
    assert [line.partition(" for ")[0] for line in found] == [f"{path} has {setting}" for setting in settings]
    harmless = FakeFiles({path: "[Service]\nTimeoutStopFailureMode=abort\nRemainAfterExit=no\n"})
    assert not told(FakeHost(kernel=h200(), files=harmless))
    masked = FakeFiles({path: "", f"/usr/lib/systemd/system/{where}/50.conf": "[Service]\nExecCondition=/bin/false\n"})
    assert not told(FakeHost(kernel=h200(), files=masked))


@pytest.mark.parametrize("it", OPENINGS, ids=lambda it: it.name)
def test_what_will_open_the_gate(it: Opening) -> None:
    """Whatever opens an installed gate is found before the gate is installed."""
    host = FakeHost(kernel=h200(), files=FakeFiles({it.path: it.text}))
    assert {name for name, _, _ in told(host)} == {"unit"}


@pytest.mark.parametrize(
    "wanted", ["{}", '{"manageForeign": "keep"}', '{"azureVnetCleanup": {"managed": ["10.240.0.0/16"]}}']
)
def test_no_systemd_where_nothing_is_to_hold(wanted: str) -> None:
    """If no gate is to be installed, it does not matter whether systemd runs."""
    host = FakeHost(kernel=h200(), manager=FakeManager(running=False))
    assert not [name for name, _, _ in told(host, HostRoutingConfig.from_json(wanted)) if name == "systemd"]


def test_an_installed_gate() -> None:
    """A finding is an error if it keeps machines from starting with the present gate, a warning if it opens it."""
    host = configured(WHOLE)
    del host.files.texts[LAYOUT.gate_script_path]
    host.files.texts[f"{UNITS}/{LAYOUT.machine_unit}.d/90.conf"] = "[Service]\nExecStartPre=\n"
    manager_of(host).boot()
    assert [it[:2] for it in told(host)] == [("gate-shut", "error"), ("gate-open", "warning")]


def test_systemd_does_not_answer() -> None:
    """The other findings are still reported."""

    class Mute(FakeManager):
        def show(self, *_: object) -> Any:
            raise ManagerError("systemctl did not answer")

    found = told(FakeHost(kernel=foreign(), manager=Mute()))
    assert [name for name, _, _ in found] == ["route-conflict", "overlap", "systemd", "action"]


def test_a_host_that_forwards_probes() -> None:
    """The route that the rewrite itself adds is not missing beforehand."""
    forwarding = {"/proc/sys/net/ipv6/conf/all/forwarding": "1\n", "/proc/sys/net/ipv6/conf/eth0/accept_ra": "2\n"}
    assert not told(FakeHost(files=FakeFiles(forwarding)), PROBES)


def test_metadata_that_gives_no_answer() -> None:
    """If the configuration says to fail without an answer, preflight already reports an error."""
    imds = {"condition": "imds", "imds": {"timeout": 1, "onUnknown": "fail"}}
    probes = {"enabled": True, "interfaces": ["eth0"], **imds}
    wanted = HostRoutingConfig.from_mapping({"probeRewrite": probes})
    host = FakeHost(fetch=lambda _url, _timeout: Reply(404))
    assert ("probe-rewrite", "error", "") in told(host, wanted)


class TestCleanup:
    """The clean-up after azure-vnet, where it is configured."""

    @staticmethod
    def config(**settings: Any) -> HostRoutingConfig:
        """A configuration with the clean-up."""
        return HostRoutingConfig.from_mapping({"azureVnetCleanup": {"managed": list(MANAGED), **settings}})

    def test_nothing_in_the_way(self) -> None:
        """Stale entries are deleted by apply if that is repeated; otherwise they are a warning."""
        assert not told(azure_host(), self.config(dryRun=False, repeat=True))
        assert told(azure_host(), self.config()) == [("azure-vnet", "warning", "azure-vnet")]

    def test_refused(self) -> None:
        """What speaks against a clean-up is a warning: apply does not fail because of it."""
        active = FakeFiles({"/etc/cni/net.d/10.conf": '{"type": "azure-vnet"}'})
        found = told(azure_host(files=active), self.config(dryRun=False, repeat=True))
        assert ("azure-vnet", "warning", "/etc/cni/net.d/10.conf") in found

    def test_no_ebtables(self) -> None:
        """Without ebtables the rules cannot be read."""
        host = azure_host()
        host.bridge_rules.fault = missing()
        assert ("tool", "warning", "ebtables") in told(host, self.config())

    def test_rights(self) -> None:
        """Root without CAP_NET_ADMIN cannot delete, and writes no undo file."""
        host = attrs.evolve(azure_host(), rights=lambda: BARE_ROOT)
        assert ("kernel", "error", "CAP_NET_ADMIN") in told(host, self.config(dryRun=False, repeat=True))
        assert kind_of(failure_of(run, CleanStaleAzureVnet(self.config(dryRun=False), host=host))) == "not-permitted"
        assert not [path for path in host.files.writes if path.endswith(".undo")]

    def test_not_permitted(self) -> None:
        """That even root may not read the rules is told once, as a warning: apply does not fail because of it."""

        class Closed:
            def of(self, *_: object, **__: object) -> "Closed":
                return self

            def save(self) -> str:
                raise ProgramError("this process may not read the rules", program="ebtables", kind="not-permitted")

        assert told(azure_host(ebtables=Closed), self.config()) == [("azure-vnet", "warning", "azure-vnet")]


UNGATED = "no gate is installed, so systemd-nspawn@.service can start unchecked until Configure has run"


class TestTask:
    """As a step of a pipeline."""

    def test_the_failure_has_the_repair(self, caplog: pytest.LogCaptureFixture) -> None:
        """In STRICT, the error has the routes that repair the escape, in words and as values; the log does not repeat them."""
        caplog.set_level("INFO")
        error = failure_of(run, Preflight(config(cidrs=(CIDR,)), host=FakeHost(kernel=h200())), of=PreflightFailed)
        assert [it["destination"] for it in error.repair] == list(REPAIR)
        assert 'add to staticRoutes.routes: [{"destination": "172.16.0.0/17"' in str(error)
        assert str(error).endswith(UNGATED)
        assert not [message for message in caplog.messages if message.startswith("overlap: ")]

    def test_the_command_for_a_long_repair(self) -> None:
        """If the routes are too many to print, the command that prints them names the file of the configuration."""
        cidrs = tuple(f"172.16.{number}.0/24" for number in range(0, 254, 2))
        found = Preflight(config(cidrs=cidrs), host=FakeHost(kernel=h200()), file="/etc/agent.json").plan(
            phases.Context(observers=[])
        )
        assert str(found.findings[-1]).endswith("hostrouting repair --config /etc/agent.json")

    @pytest.mark.parametrize(("wait", "again"), [(0, True), (30, False)])
    def test_what_may_come_later(self, wait: int, *, again: bool) -> None:
        """What only has to come, such as a default route, can be retried, as with the task that would miss it."""
        kernel = MemoryBackend() if again else foreign()
        error = failure_of(run, Preflight(WHOLE, host=FakeHost(kernel=kernel), wait=wait), of=PreflightFailed)
        assert error.can_retry is again

    def test_a_gate_that_is_installed(self) -> None:
        """If machines are checked already, the failure does not say that they start unchecked."""
        host = configured(WHOLE)
        host.kernel.ip_route("add", Route.to("172.16.0.0/18", dev="ib0", protocol=186))
        error = failure_of(run, Preflight(WHOLE, host=host))
        assert "no gate is installed" not in str(error)

    def test_errors_end_the_run(self) -> None:
        """PreflightFailed has the errors in its message, and all findings; the next step is not reached."""
        host = FakeHost(kernel=foreign())
        pipeline = phases.serial(Preflight(WHOLE, host=host), Configure(WHOLE, host=host))
        error = failure_of(run, pipeline, of=PreflightFailed)
        assert str(error).startswith("172.16.0.0/17 cannot be installed: another route has the same destination ")
        assert error.findings == look(host).findings
        assert not host.files.writes

    def test_many_errors(self) -> None:
        """Of many errors the message has the first five, and all routes that repair an escape."""
        files = FakeFiles(dict.fromkeys((LAYOUT.gate_unit_path, LAYOUT.routes_unit_path, LAYOUT.check_unit_path), ""))
        host = FakeHost(kernel=foreign(), files=files, find_program=lambda _name: None)
        errors = [str(finding) for finding in look(host).findings if finding.severity == "error"]
        repair = [str(finding) for finding in look(host).findings if finding.name == "action"]
        error = failure_of(run, Preflight(WHOLE, host=host))
        assert str(error) == "; ".join((*errors[:5], f"and {len(errors) - 5} more", *repair, UNGATED))
        assert len(errors) > 6

    def test_warnings_are_logged(self, caplog: pytest.LogCaptureFixture) -> None:
        """A warning does not end the run, and is counted; an agent that logs from WARNING on has the repair, too."""
        caplog.set_level("WARNING")
        host = FakeHost(kernel=h200())
        found = run(Preflight(config(REPAIR[0], cidrs=(CIDR,), mode="WARN"), host=host))
        assert isinstance(found, PreflightResult)
        assert found.worst == "warning"
        assert found.log_fields() == {"errors": 0, "warnings": 1}
        assert [message.partition(": ")[0] for message in caplog.messages] == ["overlap", "action"]

    def test_as_plain_values(self) -> None:
        """The result can be written as JSON."""
        found = look(FakeHost(kernel=foreign()))
        assert json.loads(json.dumps(found.to_mapping())) == {
            "findings": [finding.to_mapping() for finding in found.findings]
        }
        assert str(found).startswith("error: route-conflict: 172.16.0.0/17 ")


@pytest.mark.parametrize(
    ("guard", "severity"), [(GuardConfig(), "warning"), (GuardConfig(enabled=True), "note")], ids=str
)
def test_networkd(guard: GuardConfig, severity: str) -> None:
    """Routes that systemd-networkd would delete are named, with the key that prevents it, unless that is set."""
    host = FakeHost()
    guarded = attrs.evolve(config(*REPAIR), guard=guard)
    told = attrs.evolve(guarded, manage_foreign=Upkeep.KEEP)

    def found(settings: HostRoutingConfig) -> list[Finding]:
        plan = Preflight(settings, host=host).plan(phases.Context(observers=[]))
        return [finding for finding in plan.findings if finding.name == "networkd"]

    assert found(guarded) == []
    manager_of(host).states["systemd-networkd.service"] = UnitState("loaded", "active")
    [finding] = found(guarded)
    assert finding.severity == severity
    assert "2 static routes of this configuration" in finding.sentence
    assert '"manageForeign": "keep"' in finding.remedy
    assert found(told) == []


def test_every_tool_is_known() -> None:
    """Whatever a part or the gate needs has its row in TOOLS, and every row is needed."""
    parts = [task.part for task in Configure(config(*REPAIR, cidrs=(CIDR,)), host=FakeHost()).subtasks]
    assert {*Gate.tools, *(tool for part in parts for tool in part.tools)} == set(TOOLS)


@attrs.frozen
class Mine(HostTask[Effects]):
    """A task of another project, whose script runs a tool that none of ours does."""

    name: ClassVar[str] = "mine"
    extension: ClassVar[str] = "mine"
    is_wanted: ClassVar[bool] = True

    @property
    def part(self) -> Part:
        """A step of the gate."""
        return Part.of(self.host.layout, self.name, "exit 0\n", rank=80, does="Mine", tools=("jq",))


def test_a_tool_of_another_project() -> None:
    """A tool that only another project's script runs is looked for by its own name."""
    wanted, host = (
        HostRoutingConfig(extensions={"mine": {}}),
        FakeHost(find_program=lambda name: name if name != "jq" else None),
    )
    [found] = Preflight(wanted, host=host, tasks=(Mine,)).plan(phases.Context(observers=[])).findings
    assert str(found).startswith("jq is not installed, and mine.sh cannot run without it; install the package jq")


@pytest.mark.parametrize(
    ("state", "severities"), [("loaded", []), ("masked", ["error"]), ("not-found", ["warning"]), ("error", ["error"])]
)
def test_state_of_machines(state: str, severities: list[str]) -> None:
    """Machines that are masked, or whose unit is missing, do not start."""
    assert [finding.severity for finding in gated_findings(state, (), unit=LAYOUT.machine_unit)] == severities


def test_an_image(tmp_path: Path) -> None:
    """For an image, which has no kernel and no running systemd, files, folders and programs are examined."""
    (tmp_path / "usr/sbin").mkdir(parents=True)
    (tmp_path / "usr/sbin/ip").touch()
    (tmp_path / "etc").touch()
    found = told(Host.offline(str(tmp_path)))
    assert ("tool", "error", "awk") in found
    assert ("tool", "error", "ip") not in found
    assert ("file", "error", f"{tmp_path}/etc/hostrouting") in found
    assert {name for name, _, _ in found} == {"tool", "file"}


def test_a_conflict_changes_no_route() -> None:
    """Beside a last good script, another program's route prevents all changes: the routes are judged as they are."""
    host = configured(WHOLE)
    assert [name for name, _, _ in told(host, config(CIDR, cidrs=(CIDR,)))] == ["route-conflict"]


def test_rules_that_are_kept() -> None:
    """Linux's own rules are added first where the configuration keeps them, so nothing waits for a default route."""
    host = FakeHost(kernel=h200())
    for rule in default_rules(4)[1:]:
        host.kernel.reopen().delete_rule(rule)
    keeping = attrs.evolve(WHOLE, kernel_rules="keep")
    assert not told(host, keeping)
    run(Configure(keeping, host=host))
    assert look(host, keeping) == PreflightResult()
