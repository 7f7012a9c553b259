"""hostrouting.install.host_check: the check of a host, by the names of its findings;
tests/hostrouting/cli has its pages.
"""

import errno
from unittest import mock

import pytest

import phases
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.errors import HostError
from hostrouting.finding import ESCAPES, WRONG
from hostrouting.install.host_check import HostCheck, check_host
from hostrouting.tasks.configure import Configure
from hostrouting.testing import FakeFiles, FakeHost, FakeKernel, FakeManager, h200
from phases.testing import FakeClock
from tests.support.sections import expect
from tests.support.tasks import (
    CIDR,
    GUARDED,
    LAYOUT,
    REPAIR,
    WANTED,
    config,
    configured,
    manager_of,
    type_routes,
)
from tests.support.topologies import vpn_node

MANAGED = FakeFiles({"/run/systemd/netif/links/2": "ADMIN_STATE=configured\n"})
"""The files of a host on which systemd-networkd manages a device."""


def check_of(kernel: FakeKernel) -> HostCheck:
    """The check of a host with this kernel, and with networkd."""
    host = FakeHost(kernel=kernel, files=MANAGED)
    return check_host(config(*REPAIR, cidrs=(CIDR,)), host, repair_options=f" {CIDR}")


def test_the_findings_with_a_name() -> None:
    """They keep the order of the page, whatever the order of the names is."""
    check = check_of(h200())
    assert [finding.name for finding in check.findings] == [
        *("overlap", "action", "repair-cost", "unit")
    ]
    [action] = check.named("action")
    assert action.remedy is not None
    assert action.remedy.command == check.repair.line()
    assert action.remedy.otherwise is not None
    assert action.remedy.otherwise.words.startswith("add to staticRoutes.routes: [{")
    assert check.named("repair-cost", "overlap") == [check.findings[0], check.findings[2]]
    assert check.named(*ESCAPES) == [check.findings[0]]
    assert check.named("unsafe") == []
    assert check.named() == []
    assert check.document()["mode"] == "STRICT"
    assert check.findings[0].severity == "error"
    assert (check.code(), check.code({"overlap"})) == (1, 0)


def test_what_makes_the_verdict_undecided() -> None:
    """A doubt is the finding of the page, so its remedy has the options that are typed."""
    check = check_of(vpn_node())
    [doubt] = check.doubts
    assert check.named("default-routes") == [doubt]
    assert doubt.remedy is not None
    assert f"hostrouting repair {CIDR} --dev eth0 |" in doubt.remedy.command
    assert check.named(*WRONG) == []
    assert check.code() == 3
    ignored = {"default-routes"}
    assert check.code(ignored) == 0


@pytest.mark.parametrize(
    ("wanted", "is_noted"),
    [
        (config("10.9.0.0/16", cidrs=("10.9.0.0/16",)), True),
        (config(cidrs=(CIDR,)), True),  # the repair has routes
        (config(cidrs=("10.9.0.0/16",)), False),
    ],
)
def test_networkd(wanted: HostRoutingConfig, *, is_noted: bool) -> None:
    """It is named where there are routes that it could delete, or would be."""
    check = check_host(wanted, FakeHost(kernel=h200(), files=MANAGED))
    assert bool(check.named("unit")) is is_noted


def test_a_gateway_that_does_not_answer() -> None:
    """It is named with the configured routes that need it, of those that are there."""
    host = configured(config("10.7.0.0/16", "10.8.0.0/16"))
    type_routes(host, "10.9.0.0/16")
    lines = ["header", *(f"10.0.0.{n} 0x1 0x{2 - n} m * eth{m}" for n in (1, 2) for m in (0, 7))]
    host.files.texts["/proc/net/arp"] = "\n".join(lines).replace("0x1 0x1", "0x1 0x0")
    wanted = config("10.7.0.0/16", "10.8.0.0/16", "10.6.0.0/16", cidrs=("10.0.0.0/8",))
    [finding] = check_host(wanted, host).named("route-waits")
    assert finding.sentence == (
        "10.7.0.0/16 and 10.8.0.0/16 need the gateway 10.0.0.1, which does not answer on eth0"
    )
    assert finding.can_retry
    assert "the default route is [default via 10.0.0.1 dev eth0" in str(finding.remedy)
    answers = host.files.texts["/proc/net/arp"].replace("0x1 0x0", "0x1 0x2")
    host.files.texts["/proc/net/arp"] = answers
    assert check_host(wanted, host).named("route-waits") == []


def test_a_masked_guard() -> None:
    """It is named where it is configured, and systemd says so."""
    host = configured(GUARDED)
    manager = manager_of(host)
    manager.properties[LAYOUT.guard_unit] = {"LoadState": "masked"}
    [finding] = check_host(GUARDED, host).named("requirement")
    assert finding.target == LAYOUT.guard_unit
    assert check_host(WANTED, host).named("requirement") == []
    manager.running = False
    assert check_host(GUARDED, host).named("requirement") == []
    manager.running = True
    no_answer = HostError("no answer in time", what="systemd", kind="no-answer")
    with mock.patch.object(FakeManager, "show", side_effect=no_answer):
        assert check_host(GUARDED, host).named("requirement") == []


def test_a_name_server_in_a_service_network() -> None:
    """The check knows the name servers of the host."""
    host = FakeHost(kernel=h200(), files=FakeFiles({"/etc/resolv.conf": "nameserver 10.96.0.10\n"}))
    section = expect(CIDR, service_cidrs=("10.96.0.0/16",))
    check = check_host(HostRoutingConfig(route_overlap=section), host)
    assert [finding.target for finding in check.named("service-network-holds-host")] == [
        "10.96.0.10"
    ]


def test_routes_that_were_typed() -> None:
    """Whatever is installed, the next boot loses them, and a repair keeps them."""
    for installed in (HostRoutingConfig(), config("10.77.0.0/16", cidrs=(CIDR,))):
        host = FakeHost(kernel=h200())
        phases.run(Configure(installed, host=host), observers=[], clock=FakeClock())
        type_routes(host, *REPAIR)
        check = check_host(config(cidrs=(CIDR,)), host, repair_options=f" {CIDR}")
        [finding] = check.named("route-not-configured")
        assert finding.target == " and ".join(REPAIR)
        assert finding.remedy is not None
        assert finding.remedy.command == check.repair.line()


@pytest.mark.parametrize(("number", "is_said"), [(errno.EACCES, False), (errno.EIO, True)])
def test_a_config_json_that_cannot_be_read(
    number: int, monkeypatch: pytest.MonkeyPatch, *, is_said: bool
) -> None:
    """Nobody knows what it protects; where only the right to read it is missing, root knows."""
    host = configured(GUARDED)

    def read(_files: FakeFiles, path: str) -> str | None:
        if path == LAYOUT.config_path:
            raise HostError("cannot read it", what="file", errno=number)
        return None

    monkeypatch.setattr(FakeFiles, "read", read)
    check = check_host(config(cidrs=(CIDR,)), host)
    assert bool(check.losses) is is_said


def test_a_repair_that_takes_something_away() -> None:
    """Its command says so; the losses are those of the configuration that is repaired."""
    host = configured(GUARDED)
    check = check_host(config(cidrs=(CIDR,)), host)
    assert [loss.path for loss in check.losses] == ["guard.enabled"]
    assert check.repair.line().endswith(" --allow-removal")
    assert check_host(GUARDED, host).losses == ()
