"""`status --metrics`: the text format of Prometheus, as its own client reads it."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from hostrouting.errors import BackendError, HostError
from hostrouting.model.prefix import Prefix
from hostrouting.model.route import Route
from hostrouting.testing import FakeHost
from tests.support.cli import say
from tests.support.incidents import KUBELET, refuse
from tests.support.statuses import (
    INCIDENTS,
    PROBES,
    right,
    right_but,
    with_private_files,
    written,
)
from tests.support.tasks import LAYOUT


def read(host: FakeHost) -> dict[str, float]:
    """Each sample of this host by its name, without that of the program, and its labels; the exit
    code is 0 whatever they say.
    """
    said = say("status", "--metrics", host=host)
    assert said.err == ""
    assert said.code == 0
    values: dict[str, float] = {}
    for family in text_string_to_metric_families(said.out):
        assert family.type == "gauge"
        assert family.documentation
        assert said.out.count(f"# HELP {family.name} ") == 1
        for sample in family.samples:
            labels = ",".join(f'{name}="{value}"' for name, value in sample.labels.items())
            name = sample.name.removeprefix("hostrouting_") + (f"{{{labels}}}" if labels else "")
            assert name not in values
            values[name] = sample.value
    return values


def add_blackhole(host: FakeHost) -> None:
    """Somebody adds a blackhole."""
    host.kernel.ip_route("add", Route(Prefix.parse("172.16.9.0/24"), type="blackhole", protocol=4))


def test_a_host_that_is_right() -> None:
    """Everything is known: the verdict of each family, the gate, the units by state, the guard."""
    host = right_but(gate={"units": [KUBELET, "k3s.service"]})()
    refuse(host, "k3s.service")
    values = read(host)
    assert values["installed"] == values["in_force"] == 1
    assert values["unanswered"] == values["gate_open"] == 0
    assert values['verdict{family="ipv4",verdict="ok"}'] == 1
    assert values['verdict{family="ipv4",verdict="overlap"}'] == 0
    assert values['gated_units{state="runs"}'] == 1
    assert values['gated_units{state="refused"}'] == 1
    assert values["guard_enabled"] == values["guard_running"] == 1
    assert values["gate_timestamp_seconds"] == 4711.5, "by the note about kubelet"


WRONG = {
    "differs: addresses escape in mode WARN": ('escapes{family="ipv4",kind="overlap"}', 1),
    "differs: another card has a better default route": ("in_force", 0),
    "differs: routes are missing": ("in_force", 0),
    "open: by an administrator": ("gate_open", 1),
    "shut: config.json is broken": ("config_usable", 0),
    "shut: /etc/hostrouting is deleted": ("in_force", 0),
    "waiting: the kernel does not answer": ('verdict{family="ipv4",verdict="unknown"}', 1),
    "nothing": ("installed", 0),
    "differs: the guard has failed, and routes are missing": ("guard_running", 0),
    "differs: addresses escape in mode STRICT": ("guard_enabled", 0),
}
"""By host: a sample that says what is wrong."""


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong(name: str) -> None:
    """Each fault has a sample that says so."""
    sample, value = WRONG[name]
    assert read(INCIDENTS[name].make())[sample] == value


def test_nothing_installed() -> None:
    """There is no gate, so no sample says that it is open, or that it is not, or when it ran."""
    values = read(INCIDENTS["nothing"].make())
    assert not values.keys() & {"gate_open", "gate_timestamp_seconds"}


def test_a_range_that_is_refused() -> None:
    """Each kind of an escape has a sample of its own."""
    values = read(right_but(add_blackhole)())
    assert values['escapes{family="ipv4",kind="refused"}'] == 1


def test_a_part_that_does_not_answer() -> None:
    """What is not known has no sample; everything else has one."""
    host = right()
    host.faults.fail("snapshot", BackendError("no", kind="timeout"))
    values = read(host)
    assert values["unanswered"] == 1
    assert "guard_running" in values
    assert values["gate_open"] == 0
    assert 'gated_units{state="runs"}' in values


def test_a_user_who_may_not_read_the_configuration() -> None:
    """Whether it can be used, and whether the host matches it, is not known: an alert about a file
    that cannot be used stays silent. It hides neither the gate nor the units: their drop-ins and
    systemd say how they are.
    """
    values = read(with_private_files(right()))
    assert values["installed"] == 1
    assert values["unanswered"] > 0
    assert not values.keys() & {"config_usable", "in_force"}
    assert values["gate_open"] == 0
    assert 'gated_units{state="runs"}' in values


def test_an_open_gate_while_a_program_is_missing() -> None:
    """It is open, whatever that program could have said."""
    opening = written(LAYOUT.opening_path, "ticket")
    host = right_but(opening, probeRewrite=PROBES)()
    host.nftables.fail(HostError("nft is not installed", what="nft", kind="missing"))
    values = read(host)
    assert (values["unanswered"], values["gate_open"]) == (1, 1)


def test_systemd_does_not_answer() -> None:
    """The configuration can be used; whether it is in force, whether the gate is open, and how the
    units are is not known.
    """
    values = read(INCIDENTS["waiting: systemd does not answer"].make())
    assert values["config_usable"] == 1
    assert not values.keys() & {"in_force", "gate_open"}
    assert not any(name.startswith("gated_units") for name in values)


@pytest.mark.parametrize("other", ["--json", KUBELET])
def test_metrics_are_of_the_whole_host(other: str) -> None:
    """They are no document, and are never of one unit: its numbers would pass for those of all."""
    said = say("status", "--metrics", other, host=right())
    assert said.code == 2
    assert "--metrics: cannot be used with --json or UNIT; leave these out" in said.err
