"""The fake manager's reading of units and drop-ins, against that of a real systemd."""

import re
from collections.abc import Mapping

import pytest

from hostrouting.config.values import Mode
from hostrouting.errors import ManagerError
from hostrouting.testing import FakeManager
from hostrouting.testing.host import shown
from tests.support.gate import KUBE1, LAYOUT, config, gate_tests, host
from tests.support.inside import answering
from tests.support.systemd import System
from tests.tables.gate_openings import OPENINGS

pytestmark = gate_tests

_TEMPLATE = f"/usr/lib/systemd/system/{LAYOUT.machine_unit}"
_NAMES: tuple[str, ...] = (
    "LoadState",
    "FragmentPath",
    "DropInPaths",
    "ExecStartPre",
    "ExecCondition",
    "SuccessExitStatus",
    "Type",
)
_NAMES += ("RemainAfterExit", "NetworkNamespacePath", "PrivateNetwork", "RootDirectory", "RootImage", "MountImages")
_NAMES += ("ExtensionImages", "ExtensionDirectories")
_ETC = "/etc/systemd/system"

# More than what opens the gate: files that take the place of others, and lists that are emptied and filled again.
CASES: Mapping[str, Mapping[str, str]] = {opening.name: {opening.path: opening.text} for opening in OPENINGS} | {
    "nothing": {},
    "the same name in two folders of one unit": {
        f"{_ETC}/{KUBE1}.d/50.conf": "[Service]\nExecStartPre=/bin/one\n",
        f"{_ETC}/{LAYOUT.machine_unit}.d/50.conf": "[Service]\nExecStartPre=/bin/two\n",
    },
    "the same name in /etc and /run": {
        f"/run/systemd/system/{KUBE1}.d/50.conf": "[Service]\nExecStartPre=/bin/one\n",
        f"{_ETC}/{LAYOUT.machine_unit}.d/50.conf": "[Service]\nExecStartPre=/bin/two\n",
    },
    "the same name for the unit and for all": {
        f"{_ETC}/service.d/50.conf": "[Service]\nExecCondition=/bin/one\n",
        f"/run/systemd/system/{LAYOUT.gate_unit}.d/50.conf": "[Service]\nExecCondition=/bin/two\n",
    },
    "a list that is emptied and filled": {
        f"{_ETC}/{LAYOUT.machine_unit}.d/10.conf": "[Service]\nExecStartPre=/bin/one\nExecStartPre=\n",
        f"{_ETC}/{LAYOUT.machine_unit}.d/20.conf": "[Service]\nExecStartPre=-/bin/two words\n",
        f"{_ETC}/{LAYOUT.machine_unit}.d/5.conf": "[Service]\nExecStartPre=/bin/three\n",
    },
    "an empty drop-in, and one that is not called so": {
        f"{_ETC}/{LAYOUT.gate_unit}.d/50.conf": "",
        f"{_ETC}/{LAYOUT.gate_unit}.d/60.txt": "[Service]\nType=simple\n",
    },
    "a machine with a unit of its own": {f"{_ETC}/{KUBE1}": "[Service]\nExecStart=/bin/true\n"},
    "machines that are masked": {f"/run/systemd/system/{LAYOUT.machine_unit}": ""},
    "machines that are masked in vain": {
        f"/run/systemd/system/{LAYOUT.machine_unit}": "",
        f"{_ETC}/{LAYOUT.machine_unit}": "[Service]\nExecStart=/bin/true\n",
    },
}

_SHOW = """\
import json, sys
from hostrouting.host.systemd import SystemdManager
for line in sys.stdin:
    names, units = json.loads(line)
    print(json.dumps([dict(it) for it in SystemdManager().show(names, *units)]), flush=True)
"""


def _alike(found: Mapping[str, str]) -> dict[str, object]:
    """What is compared: of commands their words and whether they may fail, of sets no order, of /lib no /usr."""
    commands = re.compile(r"argv\[\]=(.*?) ; ignore_errors=(\w+) ;")
    if found.get("LoadState") == "masked":  # what else it shows of a masked unit depends on the version of systemd
        return {"LoadState": "masked"}
    # systemd shows a command's words without the quotes that keep them together.
    plain = {name: found.get(name, "").replace('"', "") for name in _NAMES}
    return {
        **plain,
        "FragmentPath": plain["FragmentPath"].removeprefix("/usr"),
        "SuccessExitStatus": set(plain["SuccessExitStatus"].split()),
        **{name: commands.findall(plain[name]) for name in ("ExecStartPre", "ExecCondition")},
    }


def _texts(system: System, files: Mapping[str, str]) -> dict[str, str]:
    own = (_TEMPLATE, LAYOUT.gate_unit_path, LAYOUT.gate_drop_in())
    texts = {path: system.outside(path).read_text() for path in own}
    return texts | {path: text or "/dev/null" for path, text in files.items()}


@pytest.mark.releases
def test_as_systemd_has_it() -> None:
    """The same files give the same properties, in both, and both refuse a template."""
    units = [KUBE1, LAYOUT.gate_unit]
    with host(config(mode=Mode.STRICT)) as system, answering(system, _SHOW) as show:
        [version] = show([["Version"], []])
        assert version["Version"][:3].isdigit()
        refused = system.run("systemctl", "show", "--", LAYOUT.gate_unit, LAYOUT.machine_unit)
        with pytest.raises(ManagerError) as caught:
            FakeManager().show(_NAMES, LAYOUT.gate_unit, LAYOUT.machine_unit)
        assert (refused.returncode, refused.stderr.strip()) == (1, str(caught.value).partition(": ")[2])
        for name, files in CASES.items():
            for path, text in files.items():
                if text:
                    system.lay(path, text)
                else:
                    system.link(path, "/dev/null")
            system.must("systemctl", "daemon-reload")
            texts = _texts(system, files)
            for unit, real in zip(units, show([_NAMES, units]), strict=True):
                assert _alike(shown(unit, texts)) == _alike(real), (name, unit)
            system.must("rm", "-f", "/nothing", *files)
