"""Gated units on the page of `status`: one that was refused, one that is in the gate, and one that
has no state here.
"""

from collections.abc import Callable

import attrs
import pytest

from hostrouting.cli.status_page import status_lines
from hostrouting.finding import Finding
from hostrouting.gate.unit_names import with_type
from hostrouting.gate.unit_states import UnitState
from hostrouting.headline import what_is_wrong_now
from hostrouting.status import Status
from hostrouting.testing import FakeHost, h200
from tests.support.cli import say
from tests.support.incidents import (
    GUARDED,
    KUBELET,
    apply_installed,
    config,
    escaping_node,
    node,
    refuse,
)
from tests.support.tasks import LAYOUT, REPAIR, lose_routes, manager_of

ANOTHER_RELEASE = Finding("file", "note", "the files were written by another release")
SHUT = Finding("gate-shut", "error", "the program is missing")

# A unit that was refused.


def test_a_refused_unit_is_to_be_started_when_nothing_escapes_any_more() -> None:
    """`apply` says so, too, although it changes nothing."""
    host = node(config(*REPAIR))
    refuse(host)
    refused = f"{KUBELET} was refused, and nothing is known to hold it back now"
    assert apply_installed(host).lines[:3] == [
        f"NOTHING TO DO: this host matches the configuration, but {refused}",
        "To start what was refused, as root:",
        f"  systemctl start {KUBELET}",
    ]


def test_the_reasons_of_a_refusal_whose_cause_is_gone() -> None:
    """They stay on the page, because nobody is sure of the cause, and are called past: what they
    say to type was for then.
    """
    host = node(config(*REPAIR))
    refuse(host, KUBELET, "ROUTE-CONFLICT: …", "option B: ip route del …")
    assert apply_installed(host).lines[3:6] == [
        f"  {KUBELET} has been refused since Thu 03:02 UTC; what its start logged then:",
        "    ROUTE-CONFLICT: …",
        "    option B: ip route del …",
    ]
    lose_routes(host)
    assert f"  {KUBELET} has been refused since Thu 03:02 UTC" in say("status", host=host).lines


def test_a_reason_that_is_also_the_last_check() -> None:
    """It stands once on the page, below the unit. It is not the verdict now: somebody has repaired
    that since.
    """
    host = node(config(*REPAIR))
    overlap = "OVERLAP: 172.16.0.0/16 leaves through wg0 [172.16.0.0/12 dev wg0]; expected: eth0"
    refuse(host, KUBELET, overlap)
    del host.files.texts[LAYOUT.ok_path]
    host.files.texts[LAYOUT.detected_path] = f"{overlap}\n"
    lines = say("status", host=host).lines
    assert [line for line in lines if overlap in line] == [f"    {overlap}"]
    refuse(host, KUBELET, "killed")
    assert (
        f"the last check, by the gate, the guard or apply: {overlap}"
        in say("status", host=host).out
    )


def test_two_refused_units() -> None:
    """Both are named in the first line."""
    host = node(config(*REPAIR, gate={"units": [KUBELET, "k3s.service"]}))
    refuse(host)
    refuse(host, "k3s.service")
    both = (
        "k3s.service and kubelet.service were refused, and nothing is known to hold them back now"
    )
    assert say("status", host=host).lines[0].startswith(f"ATTENTION: {both}")
    assert apply_installed(host).lines[0].endswith(f", but {both}")


def test_a_refused_unit_is_not_to_be_started_without_a_python_that_runs() -> None:
    """The gate would refuse it again, after a package clean-up for example: the first line says
    why, also before the next start, and no command starts the unit.
    """
    host = node(config(*REPAIR))
    host.interpreter.broken = "No module named 'json'"
    why = f"{LAYOUT.program_path} cannot be run: No module named 'json'"
    assert say("status", host=host).lines[0] == f"ATTENTION: {KUBELET} cannot start"
    refuse(host)
    status = say("status", host=host)
    assert status.lines[0] == f"ATTENTION: {KUBELET} was refused: {why}"
    assert [line for line in status.lines if line.startswith(f"GATE-SHUT: {why}; ")]
    assert "systemctl start" not in status.out
    assert say("status", KUBELET, host=host).lines[1] == (
        f"{KUBELET} was refused; when the cause is gone, as root: systemctl start {KUBELET}"
    )


def test_a_refused_unit_is_to_be_started_without_nft() -> None:
    """The gate only logs that the probe rewrite fails: without nft, a unit starts all the same."""
    host = node({**config(*REPAIR), "probeRewrite": {"enabled": True, "interfaces": ["eth0"]}})
    refuse(host)
    status = say("status", host=attrs.evolve(host, missing=["nft"]))
    missing = "the program nft is not installed, or not executable"
    assert any(line.startswith(f"REQUIREMENT: {missing}") for line in status.lines)
    assert f"  systemctl start {KUBELET}" in status.lines
    assert f"{KUBELET} was refused: {missing}" not in status.out


def test_a_refused_unit_is_not_to_be_started_while_addresses_escape() -> None:
    """The gate would refuse it again. The first line names the unit, and what holds it back."""
    host = escaping_node()
    refuse(host)
    status = say("status", host=host)
    assert "systemctl start" not in status.out
    assert status.lines[0] == f"ATTENTION: {KUBELET} was refused: addresses escape"


def test_a_refused_unit_is_to_be_started_in_warn_although_addresses_escape() -> None:
    """The gate lets it start. That addresses escape is not why it was refused, perhaps before the
    mode was changed.
    """
    host = node(config(mode="WARN"), h200)
    refuse(host)
    assert say("status", host=host).lines[:3] == [
        "ATTENTION: addresses escape",
        "To start what was refused, as root:",
        f"  systemctl start {KUBELET}",
    ]


def node_without_its_routes() -> FakeHost:
    """A node on which `apply` ends the escape; on an `escaping_node`, `repair | apply` does."""
    host = node(config(*REPAIR))
    lose_routes(host)
    return host


@pytest.mark.parametrize(
    ("escaping", "where"),
    [(node_without_its_routes, "above"), (escaping_node, "below")],
)
def test_a_refused_unit_is_to_be_started_after_the_command_of_the_page(
    escaping: Callable[[], FakeHost], where: str
) -> None:
    """The page says which command ends the cause."""
    host = escaping()
    refuse(host)
    start = f"after the command {where}, as root: systemctl start {KUBELET}"
    assert f"{KUBELET} was refused; {start}" in say("status", "kubelet", host=host).lines


def test_a_refused_unit_that_a_foreign_script_may_hold_back() -> None:
    """The page names the script, and the journal with what the script has printed: whether the
    script would succeed now is not known. If it does not, such as one that hangs, the script can be
    taken out of the gate, which then has no word of it.
    """
    host = node(config(*REPAIR))
    script = f"{LAYOUT.gate_directory}/30 site.sh"
    host.files.texts[script] = "exit 1\n"
    refuse(host)
    status = say("status", host=host)
    assert status.lines[:3] == [
        f"ATTENTION: {KUBELET} was refused, and only {script} may hold it back now",
        "To start what was refused, as root:",
        f"  systemctl start {KUBELET}",
    ]
    taken_out = f"as root: mv '{script}' '{script}.off'"
    assert status.lines[3] == f"  if {script} fails again, to take it out of the gate, {taken_out}"
    assert f"    see: journalctl -u {KUBELET}" in status.lines
    host.files.texts[f"{script}.off"] = host.files.texts.pop(script)
    assert "30 site.sh" not in say("status", host=host).out


def test_the_instances_of_a_template_that_were_refused() -> None:
    """Systemd starts instances: the command to type has their names, and not that of the template
    that was asked about.
    """
    host = node(config(*REPAIR, gate={"units": ["systemd-nspawn@.service"]}))
    host.files.texts[f"{LAYOUT.gate_directory}/30-site.sh"] = "exit 0\n"
    host.files.modes[f"{LAYOUT.gate_directory}/30-site.sh"] = 0o777
    refuse(host, "systemd-nspawn@kube0.service")
    refuse(host, "systemd-nspawn@kube1.service")
    page = say("status", "systemd-nspawn@.service", host=host).lines
    kubes = "systemd-nspawn@kube0.service systemd-nspawn@kube1.service"
    [line] = [line for line in page if "when the cause is gone" in line]
    assert line == (
        "systemd-nspawn@kube0.service and systemd-nspawn@kube1.service were refused; "
        f"when the cause is gone, as root: systemctl start {kubes}"
    )


def test_a_masked_instance_of_a_template() -> None:
    """Systemd loads no masked instance, so it lists none: the page has the machine all the same,
    once, and why it does not start.
    """
    host = node(config(*REPAIR, gate={"units": ["systemd-nspawn@.service", KUBELET]}))
    unit = "systemd-nspawn@kube1.service"
    host.files.link(LAYOUT.unit_path(unit), "/dev/null")
    host.files.link(LAYOUT.unit_path("another@kube1.service"), "/dev/null")
    unmask = f"to undo that, as root: systemctl unmask {unit}"
    lines = [f"  {unit} does not run", f"    it is masked, so systemd does not start it; {unmask}"]
    asked = say("status", unit, host=host)
    assert asked.code == 0
    assert asked.lines[1:3] == lines
    assert "\n".join(lines) in say("status", host=host).out
    manager_of(host).properties[unit] = {}  # as while it still runs
    assert say("status", host=host).out.count(f"  {unit} does not run") == 1


def test_a_refused_unit_whose_gate_is_shut() -> None:
    """The first line has the reason, and not only that the unit cannot start. One finding has the
    remedy.
    """
    host = node(config(*REPAIR))
    script = f"{LAYOUT.gate_directory}/30-site.sh"
    host.files.texts[script] = "exit 0\n"
    host.files.modes[script] = 0o777
    refuse(host)
    headline, *page = say("status", host=host).lines
    reason = f"users other than root can write to {script}, so the gate lets no unit pass"
    assert headline.startswith(f"ATTENTION: {KUBELET} was refused: {reason}")
    [finding] = [line for line in page if reason in line]
    assert finding.startswith("GATE-SHUT: ")


def test_a_unit_that_failed_by_itself() -> None:
    """The page says that the gate did not refuse it, and where its reason is: a machine whose image
    is broken, for example, is not hostrouting's to explain.
    """
    host = node(config(*REPAIR))
    manager_of(host).states[KUBELET] = "failed"
    status = say("status", KUBELET, host=host)
    assert status.code == 0
    assert status.lines[1:3] == [
        f"  {KUBELET} failed",
        f"    the gate did not refuse it; see: journalctl -u {KUBELET}",
    ]


@pytest.mark.parametrize(("active", "state"), [("inactive", "does not run"), ("failed", "failed")])
def test_a_masked_unit(active: str, state: str) -> None:
    """The page has the command that unmasks it. The host matches, although systemd says of a masked
    unit with drop-ins at all times that it has to reload.
    """
    host = node(config(*REPAIR))
    manager_of(host).states[KUBELET] = active
    drop_in = {"DropInPaths": LAYOUT.drop_in_path(KUBELET), "NeedDaemonReload": "yes"}
    manager_of(host).properties[KUBELET] |= {"LoadState": "masked", **drop_in}
    status = say("status", host=host)
    assert status.code == 0
    assert status.lines[1] == f"  {KUBELET} {state}"
    unmask = f"to undo that, as root: systemctl unmask {KUBELET}"
    assert status.lines[2] == f"    it is masked, so systemd does not start it; {unmask}"
    assert apply_installed(host).lines[0].startswith("NOTHING TO DO: ")


# A unit in the gate.


@pytest.mark.parametrize("unit", [None, "kubelet"])
def test_a_unit_that_waits_for_a_lock(unit: str | None) -> None:
    """The page names the process that has the lock."""
    host = node(config(*REPAIR) | {"gate": {"units": [KUBELET, "rke2-agent.service"]}})
    manager_of(host).states["rke2-agent.service"] = "active"
    manager_of(host).properties[KUBELET] |= {"ActiveState": "activating", "SubState": "condition"}
    words = ["status"] if unit is None else ["status", unit]
    assert f"  {KUBELET} is in the gate" in say(*words, host=host).lines
    assert "it waits for" not in say(*words, host=host).out
    host.files.locked.add(LAYOUT.lock_path)
    reason = f"it waits for {LAYOUT.lock_path}, which is locked by another process"
    assert say(*words, host=host).lines.count(f"    {reason}") == 1
    [kubelet, *_] = say("status", "--json", host=host).json["units"]
    assert kubelet["reasons"] == [reason]


def test_a_unit_in_the_gate_beside_a_foreign_script() -> None:
    """It may be in that script, which may hang: the page says where the script that runs is to be
    seen.
    """
    host = node(config(*REPAIR))
    manager_of(host).properties[KUBELET] |= {"ActiveState": "activating", "SubState": "condition"}
    assert "which script runs" not in say("status", host=host).out
    host.files.texts[f"{LAYOUT.gate_directory}/30-site.sh"] = "sleep infinity\n"
    line = f"    to see which script runs: systemctl status -l {KUBELET}"
    assert line in say("status", host=host).lines
    host.files.locked.add(LAYOUT.lock_path)  # then no script runs
    assert line not in say("status", host=host).lines


# A unit that has no state here.

WITHOUT_STATE = {
    "kublet": "systemd does not know kublet.service: is the name right?",
    "containerd": "containerd.service is not gated: it starts whatever the routes are",
    "hostrouting-guard": "hostrouting-guard.service is the guard, and no gate holds it back",
    "systemd-nspawn@kube1": (
        "systemd-nspawn@kube1.service is gated, and does not run: systemd has not loaded it"
    ),
}


@pytest.mark.parametrize("unit", WITHOUT_STATE)
def test_a_unit_that_has_no_state_here(unit: str) -> None:
    """A typo, a unit that is not gated, the guard, and an instance that was not started."""
    gate = {"units": [KUBELET, "systemd-nspawn@.service"]}
    host = node(config(*REPAIR, guard=GUARDED) | {"gate": gate})
    manager_of(host).properties["containerd.service"] = {"LoadState": "loaded"}
    lines = say("status", unit, host=host).lines
    assert len([line for line in lines if line.startswith(WITHOUT_STATE[unit])]) == 1


@pytest.mark.parametrize("name", ["kubelet", "k3s.node", "systemd-nspawn@kube0.service.example"])
def test_a_unit_may_be_typed_without_its_suffix(name: str) -> None:
    """As systemctl takes it: a service, also if the name of a machine has dots."""
    host = node(
        config(*REPAIR, gate={"units": [KUBELET, "k3s.node.service", "systemd-nspawn@.service"]})
    )
    refuse(host, f"{name}.service")
    said = say("status", name, host=host)
    assert said == say("status", f"{name}.service", host=host)
    assert f"systemctl start {name}.service" in said.out


@pytest.mark.parametrize(
    "name",
    [
        "service",
        "socket",
        "device",
        "mount",
        "automount",
        "swap",
        "target",
        "path",
        "timer",
        "slice",
        "scope",
    ],
)
def test_the_types_of_units(name: str) -> None:
    """Each that systemd.unit(5) has is a type, and no part of a name."""
    assert with_type(f"a.{name}") == f"a.{name}"
    assert with_type(f"a.{name}s") == f"a.{name}s.service"


@pytest.mark.parametrize(
    ("faults", "end"),
    [
        ((), ""),
        ((ANOTHER_RELEASE,), ""),
        ((ANOTHER_RELEASE, SHUT), ": the program is missing"),
    ],
    ids=["nothing is known", "what shuts no gate", "what shuts the gate"],
)
def test_the_cause_of_a_refusal_ends_the_sentence(faults: tuple[Finding, ...], end: str) -> None:
    """Where the page has no sentence for what is wrong, no colon announces one."""
    units = (UnitState("pods.service", "was refused"),)
    status = Status("waiting", units=units, faults=faults)
    assert what_is_wrong_now(status) == f"pods.service was refused{end}"


def test_a_unit_whose_name_is_escaped() -> None:
    """A shell would take the backslash away that systemd puts into the names of such machines."""
    unit = r"systemd-nspawn@my\x2dvm.service"
    refused = UnitState(unit, "was refused")
    assert Status("installed", units=(refused,)).command == f"systemctl start '{unit}'"
    asked = Status("different", unit=unit, units=(refused,))
    assert f"as root: systemctl start '{unit}'" in "\n".join(status_lines(asked))
    unchecked = Status(units=(UnitState(unit, "runs", unchecked=True),))
    assert f"as root: systemctl restart '{unit}'" in "\n".join(status_lines(unchecked))
