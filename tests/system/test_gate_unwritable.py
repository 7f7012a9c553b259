"""An apply that fails, because of files or routes: its last line says whether a machine starts now, and that is true."""

import attrs
import pytest

from hostrouting.config.values import Mode
from tests.support.gate import HALVES, LAYOUT, config, end, gate_tests, host, ours, pid, start
from tests.support.inside import answering
from tests.support.systemd import System

pytestmark = gate_tests

_CONFIG = "/root/config.json"
_UNITS = "/etc/systemd/system"
_FOLDER = f"{_UNITS}/{LAYOUT.machine_unit}.d"
_FULL = "mount -t tmpfs -o size=4k,mode=755 none {0}; cat /dev/zero >{0}/all 2>&1; true"

_OPEN = "A gated unit that is started now is NOT held back: "
_BARRED = "systemd-nspawn@.service cannot start now: "
_REFUSED = "The mode is STRICT: systemd-nspawn@.service cannot start until the check passes."

_CLI = """\
import io, json, sys
from contextlib import redirect_stderr, redirect_stdout
from hostrouting.cli import main
for line in sys.stdin:
    with redirect_stdout(io.StringIO()) as said, redirect_stderr(io.StringIO()):
        code = main(json.loads(line))
    print(json.dumps([code, said.getvalue()]), flush=True)
"""


@attrs.frozen
class Obstacle:
    """What is in the way, how it goes, and how the last line of apply begins."""

    before: str
    after: str
    last: str


OBSTACLES = {
    "full /etc": Obstacle(_FULL.format(_UNITS), f"umount {_UNITS}", _OPEN),
    "read-only /etc": Obstacle(f"mount -t tmpfs -o ro,mode=755 none {_UNITS}", f"umount {_UNITS}", _OPEN),
    "a file in the folder's place": Obstacle(f"touch {_FOLDER}", f"rm {_FOLDER}", _OPEN),
    "a masked drop-in": Obstacle(
        f"mkdir {_FOLDER}; ln -s /dev/null {LAYOUT.gate_drop_in()}", f"rm {LAYOUT.gate_drop_in()}", _OPEN
    ),
    "an empty drop-in": Obstacle(f"mkdir {_FOLDER}; : >{LAYOUT.gate_drop_in()}", f"rm {LAYOUT.gate_drop_in()}", _OPEN),
    "a masked unit": Obstacle(
        f"ln -s /dev/null {LAYOUT.gate_unit_path}", f"systemctl unmask {LAYOUT.gate_unit}", _BARRED
    ),
    "a read-only folder of scripts": Obstacle(
        f"mkdir {LAYOUT.config_directory}; mount -t tmpfs -o ro none {LAYOUT.config_directory}",
        f"umount {LAYOUT.config_directory}",
        _BARRED,
    ),
    "a file in the place of /run/aks-flex-node": Obstacle(
        f"rm -rf {LAYOUT.state_directory}; touch {LAYOUT.state_directory}", f"rm {LAYOUT.state_directory}", _BARRED
    ),
    "a file in the place of /run/hostrouting": Obstacle(
        f"rm -rf {LAYOUT.runtime_directory}; touch {LAYOUT.runtime_directory}",
        f"rm {LAYOUT.runtime_directory}",
        _BARRED,
    ),
    "no inode left in /run": Obstacle(
        # Meanwhile systemd may create a file in /run, and then there are fewer inodes than are used.
        f"rm -rf {LAYOUT.state_directory} {LAYOUT.runtime_directory}; for _ in 1 2 3 4 5 6 7 8 9; do "
        "mount -o remount,nr_inodes=$(df --output=iused /run | tail -n 1 | tr -d ' ') /run && exit; sleep 0.1; done; exit 1",
        "mount -o remount,nr_inodes=800k /run",
        _REFUSED,
    ),
}


def _clear(system: System) -> None:
    """As if nothing had been installed."""
    system.must("rm", "-rf", _FOLDER, LAYOUT.config_directory, LAYOUT.gate_unit_path, LAYOUT.check_unit_path)
    system.must("systemctl", "daemon-reload")


@pytest.mark.parametrize("kind", [pytest.param("/etc", marks=pytest.mark.nightly), "/run"])
def test_what_the_last_line_says_is_true(kind: str) -> None:
    """A machine tests the last line: if it starts, the named mask stops that; without the obstacle all is well."""
    with host() as system, answering(system, _CLI) as cli:
        system.lay(_CONFIG, config(mode=Mode.STRICT).to_json())
        for name, it in OBSTACLES.items():
            if (kind == "/run") != ("/run" in name):
                continue
            system.must("sh", "-c", it.before)
            system.must("systemctl", "daemon-reload")
            code, said = cli(["apply", "--config", _CONFIG])
            assert code == 1, name
            last = said.splitlines()[-1]
            assert last.startswith(it.last), name
            is_open = it.last == _OPEN
            assert start(system) == (0 if is_open else 1), name
            assert bool(pid(system)) == is_open, name
            if is_open:
                _holds(system, last)
            system.must("sh", "-c", it.after)
            system.must("systemctl", "daemon-reload")
            code, said = cli(["apply", "--config", _CONFIG])
            assert said.splitlines()[-1] == _REFUSED, name
            assert start(system) == 1, name
            _clear(system)


@pytest.mark.releases
def test_systemd_refuses_to_read_units() -> None:
    """With too little room in /run, only scripts can be changed; with enough room again, units, too."""
    with host() as system, answering(system, _CLI) as cli:
        system.lay(_CONFIG, config(*HALVES, mode=Mode.WARN).to_json())
        system.must("mount", "-o", "remount,size=15m", "/run")
        refused = system.run("systemctl", "daemon-reload")
        assert refused.returncode, "systemd has room enough"
        code, said = cli(["apply", "--config", _CONFIG])
        assert "systemd reads no new units with less than 16 MiB" in said, said
        assert code
        assert system.read(LAYOUT.gate_steps_path) is None
        assert system.read(LAYOUT.check_unit_path) is None
        assert system.read(LAYOUT.gate_drop_in()) is None
        assert not ours(system)
        system.must("mount", "-o", "remount,size=800m", "/run")
        assert cli(["apply", "--config", _CONFIG])[0] == 0
        system.must("mount", "-o", "remount,size=15m", "/run")
        system.lay(_CONFIG, config(*HALVES, mode=Mode.STRICT).to_json())
        assert cli(["apply", "--config", _CONFIG])[0] == 0
        assert start(system) == 0


def _holds(system: System, last: str) -> None:
    """The command in the last line holds machines back."""
    end(system)
    mask = f"systemctl mask --runtime {LAYOUT.machine_unit}"
    assert mask in last
    system.must(*mask.split())
    assert start(system) == 1
    assert not pid(system)
    system.must("systemctl", "unmask", "--runtime", LAYOUT.machine_unit)


def test_the_way_out_where_a_mask_does_not_hold() -> None:
    """If the administrator has a template, the command that is named is another, and holds machines back, too."""
    template = f"{_UNITS}/{LAYOUT.machine_unit}"
    with host() as system, answering(system, _CLI) as cli:
        system.must("cp", f"/usr/lib/systemd/system/{LAYOUT.machine_unit}", template)
        system.lay(_CONFIG, config(mode=Mode.STRICT).to_json())
        system.must("touch", _FOLDER)
        code, said = cli(["apply", "--config", _CONFIG])
        assert code == 1
        last = said.splitlines()[-1]
        assert last.startswith(_OPEN)
        command = last.partition("to hold back systemd-nspawn@.service, run: ")[2].partition("; or ")[0]
        system.must("systemctl", "mask", "--runtime", LAYOUT.machine_unit)
        assert start(system) == 0, "a mask"
        end(system)
        system.must("sh", "-c", command)
        assert start(system) == 1
        assert not pid(system)
