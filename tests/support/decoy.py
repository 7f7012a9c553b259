"""A host on which a wrong gate of hostrouting is installed: any command can be run as if on it.

The command runs in a mount namespace of its own, in which other files lie over this host's folders: a gate that refuses
every machine, drop-ins that break units, settings that nspawn would refuse, markers of an earlier check. A test that looks
at the host instead of at what it has made fails there, and so does one that boots what it finds. Whatever reads one of
these files without noticing is found afterwards: the kernel notes the time at which a file was read. Only a question
whether a file exists leaves no trace.

    python -m tests.support.decoy COMMAND...

runs the command, names each file that was read or written, and fails if there is one. It needs root; the host's own files
remain as they are. Here: the files, the namespace and what was touched. Not here: which tests run in it (tests/test_hermetic.py).
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import phases
from hostrouting.config.settings import HostRoutingConfig, RouteOverlapConfig, StaticRoute, StaticRoutesConfig
from hostrouting.host.host import Host
from hostrouting.host.layout import HostLayout
from hostrouting.tasks.configure import Configure
from tests.support.systemd import HOST_FOLDERS

LAYOUT = HostLayout()
UNDER = "HOSTROUTING_DECOY"
"""The environment variable with the files that cover the host's; booted systems have them, too."""

_UNITS = LAYOUT.unit_directory
_REFUSES = "[Service]\nExecStartPre=/bin/false\n"
_BREAKS = "[Service]\nExecStart=\nExecStart=/bin/false\n"
_FILES = {
    **{
        f"{_UNITS}/{name}.d/99-other.conf": _BREAKS
        for name in (LAYOUT.routes_unit, LAYOUT.check_unit, LAYOUT.gate_unit)
    },
    f"{_UNITS}/{LAYOUT.guard_unit}": _BREAKS,
    f"{_UNITS}/{LAYOUT.probe_unit}": _BREAKS,
    f"{_UNITS}/systemd-nspawn@kube1.service.d/50-other.conf": _REFUSES,
    f"{_UNITS}.control/systemd-nspawn@kube1.service.d/50-other.conf": _REFUSES,
    "/etc/systemd/system.conf.d/zz-other.conf": "[Manager]\nDefaultTimeoutStartSec=1s\n",
    "/etc/systemd/nspawn/kube1.nspawn": "[Exec]\nParameters=/bin/false\n",
    "/etc/systemd/nspawn/sut.nspawn": "[Exec]\nEnvironment=FOUND=yes\nWorkingDirectory=/nowhere\n",
    "/var/lib/machines/kube1/etc/machine-id": "another\n",
    LAYOUT.undo_file("azure-vnet", 1): "another\n",
    LAYOUT.protocol_name_path: "213 another\n",
    LAYOUT.ok_path: "another\n",
    LAYOUT.guard_path: "{}\n",
}
_WRONG = HostRoutingConfig(
    StaticRoutesConfig(enabled=True, routes=[StaticRoute("10.99.0.0/16", gateway="10.98.0.1", dev="eth7")]),
    RouteOverlapConfig(["10.77.0.0/16"], "STRICT"),
)


def furnish(root: Path) -> None:
    """Write these files below a directory."""
    for folder in HOST_FOLDERS:
        (root / folder[1:]).mkdir(parents=True)
    phases.execute(Configure(_WRONG, host=Host.offline(str(root))), phases.Context(observers=[]))
    for path, text in _FILES.items():
        file = root / path[1:]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def _times(root: Path) -> dict[str, tuple[int, int]]:
    """When each file and directory was last read, and last changed."""
    found = {}
    for folder in HOST_FOLDERS:
        top = root / folder[1:]
        for path in (top, *top.rglob("*")):
            state = path.lstat()
            found["/" + str(path.relative_to(root))] = state.st_atime_ns, state.st_ctime_ns
    return found


def touched(before: dict[str, tuple[int, int]], after: dict[str, tuple[int, int]]) -> list[str]:
    """What was done to which file in between."""
    found = [f"created {path}" for path in after.keys() - before.keys()]
    found += [f"removed {path}" for path in before.keys() - after.keys()]
    for path in before.keys() & after.keys():
        (read, changed), (read_later, changed_later) = before[path], after[path]
        found += [f"wrote {path}"] * (changed != changed_later) + [f"read {path}"] * (read != read_later)
    return sorted(found)


def _mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True)


def _inside(work: Path, command: list[str]) -> int:
    """In the namespace: lay the files over the host's, run the command, and name what it touched."""
    _mount("-t", "tmpfs", "-o", "noatime,mode=755", "tmpfs", str(work))
    tree = work / "tree"
    furnish(tree)
    for top in ("etc", "run", "var/lib"):
        # It gives each folder a place to be mounted on, which the host may lack.
        layers = work / f"over-{top}"
        (layers / "work").mkdir(parents=True)
        options = f"lowerdir={tree / top}:/{top},upperdir={layers}/upper,workdir={layers}/work"
        (layers / "upper").mkdir()
        _mount("-t", "overlay", "-o", options, "overlay", f"/{top}")
    for folder in HOST_FOLDERS:
        _mount("--bind", str(tree / folder[1:]), folder)
        _mount("-o", "remount,bind,strictatime", folder)
    for path in (tree, *tree.rglob("*")):
        os.utime(path, (0, 0), follow_symlinks=False)
    before = _times(tree)  # below `work` nothing is noted, so this reads unseen
    # Whoever kills this process ends the command, too.
    done = subprocess.run(
        ["setpriv", "--pdeathsig", "KILL", *command], check=False, env={**os.environ, UNDER: str(tree)}
    )
    found = touched(before, _times(tree))
    for line in found:
        print(f"decoy: the command {line} of the host", file=sys.stderr)  # noqa: T201  what the program is for
    return done.returncode or int(bool(found))


def _main(arguments: list[str]) -> int:
    if arguments[:1] == ["--inside"]:
        return _inside(Path(arguments[1]), arguments[2:])
    with tempfile.TemporaryDirectory(prefix="decoy-") as work:
        again = [sys.executable, "-m", "tests.support.decoy", "--inside", work, *arguments]
        apart = ["setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--propagation", "private"]
        done = subprocess.run([*apart, *again], check=False)
    return done.returncode


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
