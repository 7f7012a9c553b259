"""What is kept although network managers take it away: Linux's own rules, and routes that systemd-networkd does not know."""

from pathlib import Path

import attrs
import pytest

import phases
from hostrouting import Configure, HostRoutingConfig, Remove
from hostrouting.boot.gate_files import parse_gate_steps
from hostrouting.boot.scripts import render_rules_script
from hostrouting.host.host import Host
from hostrouting.kernel.netlink import NetlinkBackend
from hostrouting.model.rule import Rule, default_rules
from hostrouting.tasks.keeping import KeepForeign, KeepKernelRules
from hostrouting.testing import FakeFiles, FakeHost, FakeManager, h200
from tests.support.awks import put_before
from tests.support.namespace import Namespace, private_namespace
from tests.support.tasks import LAYOUT, REPAIR, config, failure_of, manager_of, ours, run

KEEPING = HostRoutingConfig(kernel_rules="keep")
TOLD = HostRoutingConfig(manage_foreign="keep")
OWN = (*default_rules(4), *default_rules(6))
MOVED = Rule(family=4, priority=100, table=255)
THEIRS = Rule(family=4, priority=100, table=100)


@pytest.fixture
def host() -> FakeHost:
    """An H200 node without anything that hostrouting installed."""
    return FakeHost(kernel=h200())


def rules(host: FakeHost) -> tuple[Rule, ...]:
    """The rules in the kernel."""
    return host.kernel.reopen().snapshot().rules


def lose(host: FakeHost, *lost: Rule) -> None:
    """Delete these rules, as another program does."""
    for rule in lost:
        host.kernel.reopen().delete_rule(rule)


@pytest.mark.parametrize("lost", OWN, ids=repr)
def test_a_missing_rule_is_added_again(host: FakeHost, lost: Rule) -> None:
    """A missing rule is in the plan, and is added with Linux's own protocol. Other programs' rules stay."""
    host.kernel.add_rule(THEIRS)
    before = rules(host)
    lose(host, lost)
    assert f"rule {lost}" in str(Configure(KEEPING, host=host).preview())
    run(Configure(KEEPING, host=host))
    assert rules(host) == before
    assert Configure(KEEPING, host=host).preview().is_empty


def test_new_routes_do_not_wait_for_a_missing_rule(host: FakeHost) -> None:
    """Beside a last good script, new routes are planned before the rules are added, as if these were there."""
    wanted = config(*REPAIR)
    run(Configure(wanted, host=host))
    lose(host, OWN[1])
    more = attrs.evolve(config(*REPAIR, "10.9.0.0/16"), kernel_rules="keep")
    run(Configure(more, host=host, wait=0))
    assert len(ours(host)) == 3
    assert OWN[1] in rules(host)


def test_without_the_key_nothing_is_added(host: FakeHost) -> None:
    """By default, a missing rule is left alone."""
    lose(host, OWN[0])
    run(Configure(config(*REPAIR), host=host))
    assert OWN[0] not in rules(host)


def test_a_moved_rule_is_a_decision(host: FakeHost) -> None:
    """A rule for table local with another priority, as Cilium has it, is left where it is."""
    host.kernel.add_rule(MOVED)
    lose(host, OWN[0])
    run(Configure(KEEPING, host=host))
    assert OWN[0] not in rules(host)


def test_the_guard(host: FakeHost) -> None:
    """The guard adds a missing rule if it may, and reports it."""
    task = KeepKernelRules(KEEPING, host=host)
    lose(host, OWN[0], OWN[4])
    ctx = phases.Context(observers=[])
    assert task.keep(ctx, lambda _: False).repairs == ()
    assert [repair.key for repair in task.keep(ctx, lambda _: True).repairs] == [
        "rule 0: from all lookup local",
        "IPv6 rule 32766: from all lookup main",
    ]
    assert set(OWN) <= set(rules(host))
    assert task.keep(ctx, lambda _: True).repairs == ()


def test_remove_leaves_the_rules(host: FakeHost) -> None:
    """The rules are Linux's own, so they stay; every file is removed."""
    run(Configure(KEEPING, host=host))
    steps = parse_gate_steps(host.files.texts[LAYOUT.gate_steps_path])
    assert [str(step) for step in steps] == ["40 wants kernel-rules"]
    run(Remove(KEEPING, host=host))
    assert set(OWN) <= set(rules(host))
    assert [path for path in (*host.files.texts, *host.files.links) if path.startswith("/etc")] == []


def test_the_drop_in(host: FakeHost) -> None:
    """The drop-in needs no gate, and is in the plan. A configuration without it removes it, and so does Remove."""
    run(Configure(TOLD, host=host))
    text = host.files.texts[LAYOUT.networkd_path]
    assert text.endswith("[Network]\nManageForeignRoutes=no\nManageForeignRoutingPolicyRules=no\n")
    assert [path for path in host.files.texts if path.startswith("/etc")] == [LAYOUT.networkd_path]
    assert [call for call in manager_of(host).calls if "networkd" in call and not call.startswith("show")] == []
    look = Configure(HostRoutingConfig(), host=host).preview()
    assert LAYOUT.networkd_path in look.files.removes
    assert [gone.target for gone in KeepForeign(HostRoutingConfig(), host=host).removals()] == ["manageForeign"]
    run(Configure(HostRoutingConfig(), host=host))
    assert LAYOUT.networkd_path not in host.files.texts


def test_a_drop_in_of_somebody_else_stays(host: FakeHost) -> None:
    """A file that we did not write is neither replaced nor removed."""
    host.files.texts[LAYOUT.networkd_path] = "[Network]\nSpeedMeter=yes\n"
    failure_of(run, Configure(TOLD, host=host), match="was not written by hostrouting")
    run(Remove(TOLD, host=host))
    assert host.files.texts[LAYOUT.networkd_path] == "[Network]\nSpeedMeter=yes\n"


def as_a_step(namespace: Namespace, script: Path, **environment: str) -> tuple[int, str]:
    """The status of the script, and what it prints, if it is run as the gate does: without an exit it has failed."""
    done = namespace.run("/bin/bash", "-pc", '. "$0"; exit 9', str(script), **environment)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.linux
@pytest.mark.needs("root")
@pytest.mark.parametrize("way", ["task", "script"])
def test_on_linux(way: str, tmp_path: Path) -> None:
    """The task and the boot script restore the same rules in Linux, and leave those of others and a moved one."""
    with private_namespace() as namespace:
        script = tmp_path / "kernel-rules.sh"
        script.write_text(render_rules_script())

        def opened() -> NetlinkBackend:
            return NetlinkBackend(netns=namespace.path)

        def restore() -> None:
            if way == "script":
                assert as_a_step(namespace, script, failed="1", PATH="/nowhere") == (0, "")
                return
            node = Host(backend=opened, files=FakeFiles(), manager=FakeManager())
            KeepKernelRules(KEEPING, host=node).keep(phases.Context(observers=[]), lambda _: True)

        def now() -> tuple[Rule, ...]:
            with opened() as backend:
                return backend.snapshot().rules

        namespace.batch(["rule add pref 100 table 100", "rule add pref 101 table 254 suppress_prefixlength 0"])
        before = now()
        namespace.batch([f"rule del pref {priority}" for priority in (0, 32766, 32767)])
        restore()
        assert now() == before
        namespace.batch(["rule add pref 102 table local", "rule del pref 0"])
        moved = now()
        restore()
        assert now() == moved


# What `ip` does instead, the status of the script, and what it says.
REFUSALS = {
    "unreadable": ("[[ $* != *-4*show ]] || { echo no >&2; exit 2; }", 1, "the rules cannot be read: no"),
    "refused": (
        "[[ $* != *-6*add* ]] || { echo no >&2; exit 2; }",
        1,
        "the rule 32766: from all lookup 254 was refused: no",
    ),
    "added meanwhile": ("[[ $* != *-6*add* ]] || { echo RTNETLINK answers: File exists >&2; exit 2; }", 0, ""),
    "no IPv6": ("[[ $* != *-6* ]] || { echo no >&2; exit 2; }", 0, ""),
}


@pytest.mark.linux
@pytest.mark.needs("root")
@pytest.mark.parametrize("refusal", REFUSALS)
def test_where_the_script_is_refused(refusal: str, tmp_path: Path) -> None:
    """A refusal is an error in the journal, which does not keep the other family from its rules."""
    body, status, said = REFUSALS[refusal]
    text = put_before(render_rules_script(), {"ip": f'{body}\nexec ip "$@"'}, tmp_path)
    script = tmp_path / "kernel-rules.sh"
    script.write_text(text.replace("/proc/self/net/if_inet6", "/nowhere") if refusal == "no IPv6" else text)
    with private_namespace() as namespace:
        namespace.batch(["rule del pref 32767"])
        namespace.batch(["rule del pref 32766"], family=6)
        done = as_a_step(namespace, script)
        with NetlinkBackend(netns=namespace.path) as backend:
            left = {*OWN} - {*backend.snapshot().rules}
    assert done[0] == status
    assert {*done[1].splitlines()} == ({f"<3>kernel-rules: {said}"} if said else set())
    assert left == ({OWN[2]} if refusal == "unreadable" else {OWN[4]})
