"""What opens the gate although its files exist: each opens it, is reported with its file, and can be undone."""

import re

import pytest

from hostrouting.config.values import Mode
from tests.support.gate import (
    HALVES,
    KUBE1,
    LAYOUT,
    await_start,
    begin_start,
    config,
    end,
    gate_tests,
    has_started,
    host,
    is_starting,
    pid,
    run_task,
    start,
)
from tests.support.inside import statuses, told_in
from tests.support.systemd import System
from tests.support.waiting import wait_for
from tests.tables.gate_openings import EDITS, OPENINGS

pytestmark = gate_tests


def _other_network(system: System) -> None:
    """A network namespace in which nothing overlaps."""
    system.must("ip", "netns", "add", "other")
    inside = ["link add eth0 type veth peer name peer", "link set eth0 up", "link set peer up"]
    inside += ["address add 10.0.0.4/24 dev eth0", "route add default via 10.0.0.1"]
    for line in inside:
        system.must("ip", "-n", "other", *line.split())


@pytest.mark.nightly
def test_each_opens_it_and_is_told() -> None:
    """A machine that STRICT holds back runs with each of them; status names its file alone; without them it is shut."""
    with host(config(mode=Mode.STRICT)) as system, statuses(system) as status:
        _other_network(system)
        for opening in OPENINGS:
            if opening.text:
                system.lay(opening.path, opening.text)
            else:
                system.link(opening.path, "/dev/null")
            system.must("systemctl", "daemon-reload")
            # Before the start, for systemd need not have loaded the machine.
            found = status()
            assert found["code"] == 1, opening
            [told] = told_in(found, "gate-open")
            assert opening.told in told, opening
            assert opening.path in told, opening
            assert start(system) == 0, opening
            assert pid(system), opening
            end(system)
            system.must("rm", opening.path)
        system.must("systemctl", "daemon-reload")
        assert told_in(status(), "gate-open") == []
        assert start(system) == 1
        assert not pid(system)


@pytest.mark.parametrize(
    "names", [[*EDITS][::3], pytest.param([*EDITS], marks=pytest.mark.nightly)], ids=["some", "each"]
)
def test_an_edit_of_an_installed_file(names: list[str]) -> None:
    """A machine that STRICT holds back starts after each of these edits, and status names the file; apply undoes it."""
    settings = config(mode=Mode.STRICT)
    with host(settings) as system, statuses(system) as status:
        for name, edit in ((name, EDITS[name]) for name in names):
            text = system.must("cat", edit.path)
            system.lay(edit.path, edit.made_in(text))
            system.must("systemctl", "daemon-reload")
            assert start(system) == 0, name
            end(system)
            found = status()
            assert found["code"] == 1, name
            assert told_in(found, "gate-open")[0].startswith(f"{edit.path} is not as hostrouting wrote it"), name
            assert run_task(system, "Configure", settings).returncode == 1, "what overlaps is still there"
            assert told_in(status(), "gate-open") == [], name
        assert start(system) == 1


def test_those_of_the_files() -> None:
    """The drop-in reverted or masked, and a unit that stays active open it; apply undoes the first."""
    settings = config(*HALVES, mode=Mode.STRICT)
    with host(settings) as system, statuses(system) as status:
        assert start(system) == 0
        end(system)
        stays = f"/etc/systemd/system/{LAYOUT.gate_unit}.d/99.conf"
        system.lay(stays, "[Service]\nRemainAfterExit=yes\n")
        system.must("systemctl", "daemon-reload")
        assert start(system) == 0
        end(system)
        system.must("ip", "address", "add", "172.16.200.5/24", "dev", "ib0")
        assert start(system) == 0, "the unit is active still"
        end(system)
        [told] = told_in(status(), "gate-open")
        assert "has RemainAfterExit=yes, which means that the script runs only when the first gated unit starts" in told
        system.must("rm", stays)
        system.must("systemctl", "daemon-reload")
        system.must("systemctl", "stop", LAYOUT.gate_unit)
        assert start(system) == 1

        system.must("ln", "-sf", "/dev/null", LAYOUT.gate_drop_in())
        system.must("systemctl", "daemon-reload")
        [told] = told_in(status(), "gate-open")
        assert told.startswith(f"{LAYOUT.gate_drop_in()} ")
        assert start(system) == 0
        end(system)
        system.must("systemctl", "revert", LAYOUT.machine_unit)
        [told] = told_in(status(), "gate-open")
        assert told.startswith(f"{LAYOUT.gate_drop_in()} is missing")
        assert start(system) == 0
        end(system)
        assert run_task(system, "Configure", settings).returncode == 1, "what overlaps is still there"
        assert told_in(status(), "gate-open") == []
        assert start(system) == 1


@pytest.mark.releases
def test_what_systemd_has_not_read() -> None:
    """A drop-in that systemd has yet to read opens the gate for a machine that is loaded, until the next apply.

    No file differs then, so apply has to ask systemd.
    """
    settings = config(mode=Mode.STRICT)
    keeps = {"/etc/systemd/system/keeps-it-loaded.target": f"[Unit]\nWants={KUBE1}\n"}
    with host(settings, more=keeps) as system, statuses(system) as status:
        path = LAYOUT.gate_drop_in()
        system.must("mv", path, "/root/kept")
        system.must("systemctl", "daemon-reload")
        system.must("systemctl", "start", "keeps-it-loaded.target")
        wait_for("the machine", lambda: system.show(KUBE1, "ActiveState") == "active")
        end(system)
        system.must("mv", "/root/kept", path)
        openings = told_in(status(), "gate-open")
        assert openings
        assert all(told.endswith("run: systemctl daemon-reload") for told in openings)
        assert system.show(KUBE1, "NeedDaemonReload") == "yes"
        assert run_task(system, "Configure", settings).returncode == 1
        assert system.show(KUBE1, "NeedDaemonReload") == "no"
        assert told_in(status(), "gate-open") == []
        assert start(system) == 1


def test_a_command_before_ours() -> None:
    """If a foreign command before ours is removed while it runs, the gate is skipped; status names that."""
    first = f"/etc/systemd/system/{LAYOUT.machine_unit}.d/00-first.conf"
    waits = "[Service]\nExecStartPre=/bin/sh -c 'while [ -e /run/wait ]; do sleep 0.02; done'\n"
    with host(config(mode=Mode.STRICT)) as system, statuses(system) as status:
        system.lay(first, waits)
        system.must("systemctl", "daemon-reload")
        assert start(system) == 1, "while it stays, machines ask"
        found = status()
        assert found["code"] == 1
        [told] = told_in(found, "gate-open")
        assert told.startswith(f"{LAYOUT.machine_unit} runs another ExecStartPre= before the gate: ")
        assert told.endswith(f"; see {first}")
        system.lay("/run/wait", "")
        begin_start(system)
        wait_for("its first command", lambda: is_starting(system))
        system.must("rm", first)
        system.must("systemctl", "daemon-reload")
        system.must("rm", "/run/wait")
        await_start(system)
        # On a busy machine its own systemd may fail afterwards, because this one has changed the control groups meanwhile.
        assert re.search(r"^Started (systemd-nspawn@kube1|Container kube1)", system.journal(KUBE1), re.MULTILINE)
        end(system)
        assert start(system) == 1


def test_a_signal_that_a_machine_takes_for_a_success() -> None:
    """A signal that can be caught does not open it, one that cannot does; status names both."""
    drop_in = f"/etc/systemd/system/{LAYOUT.machine_unit}.d/99.conf"
    with host(config(mode=Mode.STRICT)) as system, statuses(system) as status:
        system.must("sed", "-i", "3i sleep 60", LAYOUT.check_script_path)
        for name in ("TERM", "USR1", "KILL"):
            system.lay(drop_in, f"[Service]\nSuccessExitStatus={name}\n")
            system.must("systemctl", "daemon-reload")
            _, told = told_in(status(), "gate-open")
            assert "so it starts even if a signal ends its wait for the gate" in told, name
            begin_start(system)
            wait_for("its step", lambda: LAYOUT.check_script in system.run("pgrep", "-af", "check-route").stdout)
            system.must("systemctl", "kill", f"--signal={name}", KUBE1)
            assert has_started(system) is (name == "KILL"), name
            end(system)
            system.must("systemctl", "stop", LAYOUT.gate_unit)


def test_what_keeps_it_shut() -> None:
    """A setting with which systemd does not start the gate's unit is reported with its file."""
    drop_in = f"/etc/systemd/system/{LAYOUT.gate_unit}.d/99.conf"
    # As a machine that was refused does: systemd forgets of a unit that it has not loaded why it did not start.
    keeps = {"/etc/systemd/system/keeps-it-loaded.target": f"[Unit]\nAfter={LAYOUT.gate_unit}\n"}
    with host(config(*HALVES, mode=Mode.STRICT), more=keeps) as system, statuses(system) as status:
        system.must("systemctl", "start", "keeps-it-loaded.target")
        for setting in ("RefuseManualStart=yes", "AssertPathExists=/gone"):
            system.lay(drop_in, f"[Unit]\n{setting}\n")
            system.must("systemctl", "daemon-reload")
            assert system.run("systemctl", "start", LAYOUT.gate_unit).returncode, "what every machine's start asks for"
            found = status()
            assert told_in(found, "gate-open") == []
            [told] = told_in(found, "gate-shut")
            assert setting.partition("Path")[0] in told
            assert told.endswith(f"see {drop_in}")
        system.must("rm", drop_in)
        system.must("systemctl", "daemon-reload")
        assert start(system) == 0
        assert told_in(status(), "gate-shut") == []


def test_what_does_not_open_it() -> None:
    """Settings of the machine's unit that hide or replace what the question looks at do not open the gate."""
    drop_in = f"/etc/systemd/system/{LAYOUT.machine_unit}.d/99.conf"
    template = "/etc/systemd/system/" + LAYOUT.machine_unit
    with host(config(mode=Mode.STRICT)) as system:
        rows = [
            *(
                (drop_in, f"[Service]\n{setting}\n")
                for setting in (
                    "TemporaryFileSystem=/etc/systemd",
                    "InaccessiblePaths=/etc/systemd",
                    "PrivateTmp=yes",
                    "Environment=SYSTEMD_OFFLINE=1 SYSTEMD_IN_CHROOT=1 BASH_ENV=/etc/test-network.sh",
                    'Environment="BASH_FUNC_systemctl%%=() { :; }"',
                    "TimeoutStartSec=50ms\nTimeoutStartFailureMode=kill",
                )
            ),
            (template, system.must("cat", f"/usr/lib/systemd/system/{LAYOUT.machine_unit}")),
            (f"/etc/systemd/system/{KUBE1}", system.must("cat", f"/usr/lib/systemd/system/{LAYOUT.machine_unit}")),
            (f"/etc/systemd/system/{LAYOUT.gate_unit}.d/99.conf", "[Service]\nRestartForceExitStatus=1\n"),
            (f"/etc/systemd/system/{LAYOUT.gate_unit}.d/99.conf", "[Unit]\nOnFailure=basic.target\n"),
        ]
        for path, text in rows:
            system.lay(path, text)
            system.must("systemctl", "daemon-reload")
            assert start(system) == 1, text
            assert not pid(system), text
            system.must("rm", path)
            system.run("systemctl", "stop", LAYOUT.gate_unit)


@pytest.mark.releases
def test_a_mask_holds_machines_back() -> None:
    """The remedy that a failed apply names holds machines back without a gate, and status says so."""
    with host(config(mode=Mode.STRICT)) as system, statuses(system) as status:
        assert start(system) == 1
        system.must("rm", LAYOUT.gate_drop_in())
        system.must("systemctl", "mask", "--runtime", LAYOUT.machine_unit)
        assert start(system) == 1
        assert not pid(system)
        found = status()
        assert told_in(found, "gate-open") == []
        [bar] = told_in(found, "gate-shut")
        assert bar.startswith(f"{LAYOUT.machine_unit} is masked")
        system.must("systemctl", "unmask", "--runtime", LAYOUT.machine_unit)
        assert told_in(status(), "gate-open")
        assert start(system) == 0
