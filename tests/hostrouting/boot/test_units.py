"""hostrouting.boot.units: texts that never change; tests/system runs them under systemd."""

import re
import subprocess

import pytest

from hostrouting.boot import units
from hostrouting.host.layout import HostLayout
from hostrouting.node.ending import TIME_LIMIT

LAYOUT = HostLayout()
TEXTS = {**units.UNITS, "the drop-in": units.DROP_IN_TEXT}
SETS, MARKS = "CAP_NET_ADMIN", "CAP_DAC_OVERRIDE"
FLUSHERS = " nftables-flush.service nftables.service"
RUN = {
    LAYOUT.guard_unit: ("guard", "guard", "", ("always", "1"), f"{SETS} {MARKS}", "/run", "kill"),
    LAYOUT.routes_unit: ("boot", "static_routes", "", ("on-failure", "60"), SETS, "", ""),
    LAYOUT.check_unit: ("boot", "route_overlap", "", ("", ""), MARKS, "/run", ""),
    LAYOUT.probe_unit: ("boot", "probe_rewrite", FLUSHERS, ("on-failure", "10"), SETS, "", "kill"),
}
"""By unit: function, argument, what comes first, when it is started again, what it may do, where it
may write, and a system call."""


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_no_unit_pulls_another(text: str) -> None:
    """No setting could stop a running unit, or keep a oneshot from running again."""
    stop_others = ["Requires", "Requisite", "BindsTo", "PartOf", "RequiredBy", "Before="]
    for word in [*stop_others, "RemainAfterExit"]:
        assert word not in text


@pytest.mark.parametrize("unit", units.UNITS)
def test_what_a_unit_runs(unit: str) -> None:
    """A function of the program, after what could undo its work; what fails is tried again."""
    function, argument, after, restart, capabilities, writes, call = RUN[unit]
    settings: dict[str, str] = {}
    for line in units.UNITS[unit].splitlines():
        name, _, value = line.partition("=")
        settings[name] = value
    assert (settings.get("Restart", ""), settings.get("RestartSec", "")) == restart
    assert settings.get("ReadWritePaths", "") == writes
    expected = {
        "Type": "exec" if unit == LAYOUT.guard_unit else "oneshot",
        "CapabilityBoundingSet": capabilities,
        "SystemCallFilter": f"pipe pipe2 {call}",
        "StartLimitIntervalSec": "0",  # systemd never gives up
        "After": f"network-online.target{after}",
        "RuntimeDirectoryPreserve": "yes",  # it has the lock, and the file that opens the gate
        "SyslogIdentifier": "hostrouting",  # for `status`
    }
    assert settings.items() >= expected.items()
    assert f"from hostrouting.node import run_{function}; run_{function}()" in settings["ExecStart"]
    assert settings["ExecStart"].endswith(f"' hostrouting {argument}")


def test_time_limits_and_order() -> None:
    """The program ends before its time limit. The gate loads its table after what may delete it."""
    limits = re.findall("TimeoutStartSec=(.*)", "".join(TEXTS.values()))
    assert len(limits) == 3
    for limit in (*map(float, limits), 90.0):
        assert limit >= TIME_LIMIT + 10
    assert f"\nAfter=network-online.target{FLUSHERS}\n" in units.DROP_IN_TEXT


@pytest.mark.linux
@pytest.mark.needs("shellcheck")
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_shellcheck(text: str) -> None:
    """Shellcheck warns of nothing in what a shell reads, but of `m= r=`, which is meant."""
    [words] = re.findall(r"/bin/sh -c '(.*)'", text)
    shell = words.replace("%%", "%").replace("$$", "$")
    command = ["shellcheck", "--shell=dash", "--severity=warning", "--exclude=SC1007", "-"]
    done = subprocess.run(command, input=shell, capture_output=True, text=True, check=False)
    assert done.stdout == ""
