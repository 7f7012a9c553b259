"""What is published, tried in bare roots of Debian that have no network: `make packages`.

    python -m tests.system.packages DIST ROOTS [RELEASE...]

DIST is what `make dist` has built; ROOTS has the root of each release, as `make roots` makes them. Without the name of a
release, all are tried. What the wheel depends
on is downloaded before, in its oldest and in its newest allowed versions.

Here: what has to be true of each kind of package in each release. Not here: how the packages are made
(tests.support.bundle, tests.support.debian_package).
"""

import functools
import json
import re
import shutil
import subprocess
import sys
import tempfile
import traceback
from contextlib import contextmanager
from pathlib import Path

import attrs

import hostrouting
from tests.support.cli import say
from tests.support.gate import host, ours, start
from tests.support.machine import H200
from tests.support.namespace import Namespace
from tests.support.pages import ROOT
from tests.support.programs import completed
from tests.support.waiting import wait_for

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib
from collections.abc import Callable, Iterator
from typing import TypeAlias

Check: TypeAlias = "Callable[[str, Sources], None]"

TOO_OLD, RELEASES = ("bullseye",), ("bookworm", "trixie")
"""The releases whose Python is too old, and those on which everything works."""

CONFIG = {
    "staticRoutes": {"enabled": True, "routes": [{"destination": "172.16.0.0/17"}, {"destination": "172.16.128.0/17"}]},
    "routeOverlap": {"expectedCidrs": ["172.16.0.0/16"], "mode": "STRICT"},
    "guard": {"enabled": True},
}
WITHOUT_GUARD = {key: value for key, value in CONFIG.items() if key != "guard"}
HALVES = ["172.16.0.0/17", "172.16.128.0/17"]
GUARD = "hostrouting-guard.service"
CAPTURED = "OVERLAP: 172.16.0.0/16 leaves by ib0, not by eth0"

_SETUP = """
mount --make-rprivate / && mount -t tmpfs tmpfs "$1" && mkdir "$1/upper" "$1/work" "$1/root" && r=$1/root
mount -t overlay overlay -o "lowerdir=$2,upperdir=$1/upper,workdir=$1/work" "$r"
mount -t proc proc "$r/proc" && mount -t sysfs sysfs "$r/sys" && mount --rbind /dev "$r/dev"
mount -t tmpfs tmpfs "$r/run" && mount -t tmpfs tmpfs "$r/tmp" && mkdir -p "$r/mnt/dist" "$r/mnt/wheels"
mount --bind "$3" "$r/mnt/dist" && mount --bind "$4" "$r/mnt/wheels"
echo ready; exec cat
"""


@attrs.frozen
class Sources:
    """The directories that a root sees."""

    dist: Path
    wheels: Path
    roots: Path


class Bare(Namespace):
    """A throw-away copy of a root, with the network of an H200 node, and without systemd running."""

    def __init__(self, pid: int, path: str, sources: Sources) -> None:
        """Enter the namespaces of this process, and the root at this path."""
        super().__init__(pid)
        self.top, self.sources = path, sources

    def sh(self, script: str, *, code: int = 0) -> str:
        """The output of a script in the root, which has to end with this exit code."""
        inside = ("--mount", "chroot", self.top, "sh", "-ec", script)
        environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "HOME": "/root"}
        done = completed([*self.enter, *inside], env={**environment, "DEBIAN_FRONTEND": "noninteractive"})
        assert done.returncode == code, f"{script}\nended with {done.returncode}:\n{done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    def lay(self, path: str, text: str) -> None:
        """Write a file in the root."""
        target = Path(f"/proc/{self.pid}/root{self.top}{path}")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    @property
    def here(self) -> Path:
        """The root, for this process."""
        return Path(f"/proc/{self.pid}/root{self.top}")

    def ours(self) -> list[str]:
        """The destinations of hostrouting's routes."""
        return [line.split()[0] for line in self.ip("-N", "route", "show", "proto", "213").stdout.splitlines()]


@contextmanager
def bare(release: str, sources: Sources) -> Iterator[Bare]:
    """A copy of the root of a release. It is removed at the end of the block, or when this process ends."""
    with tempfile.TemporaryDirectory() as work:
        words = [work, str(sources.roots / release), str(sources.dist), str(sources.wheels)]
        holder = subprocess.Popen(
            ["unshare", "--net", "--mount", "sh", "-ec", _SETUP, "sh", *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "ready\n", f"{release} could not be prepared"
            root = Bare(holder.pid, f"{work}/root", sources)
            root.batch(H200)
            root.lay("/root/agent.json", json.dumps(CONFIG))
            yield root
        finally:
            holder.kill()
            holder.communicate()


def refused_with_one_line(root: Bare) -> None:
    """hostrouting.pyz and the wheel say in one line which Python they need and what to do instead; the exit code is 3."""
    root.sh("python3 -m zipfile -e /mnt/dist/hostrouting-*.whl /root/site")
    for words in ("python3 /mnt/dist/hostrouting.pyz", "cd /root/site && python3 -m hostrouting"):
        told = root.sh(f"{words} check 172.16.0.0/16", code=3)
        assert re.fullmatch(
            r"hostrouting: Python 3\.10 or newer is needed, and this is Python 3\.9 .*--script.*\n", told
        ), told


def package_is_refused(root: Bare) -> None:
    """The package is not configured by dpkg, which names the reason, and it can be removed again."""
    told = root.sh("dpkg -i /mnt/dist/hostrouting_*.deb", code=1)
    assert "hostrouting depends on python3 (>= 3.10); however:" in told, told
    root.sh("dpkg -P hostrouting; ! dpkg -s hostrouting")


def scripts_of_another_host(root: Bare) -> None:
    """Boot scripts that another host has rendered for this one install the routes, and find that nothing escapes."""
    root.lay("/root/agent.json", json.dumps(WITHOUT_GUARD))  # which would need the command
    said = say("render", "--config", str(root.here / "root/agent.json"), "--root", str(root.here))
    assert said.code == 0, said.err
    root.sh("/etc/hostrouting/static-routes.sh && /etc/hostrouting/check-route-overlap.sh")
    assert root.ours() == HALVES
    assert root.sh("cat /run/aks-flex-node/route-overlap.ok").startswith("ok\n")


def snapshot_without_python(root: Bare) -> None:
    """The script of `snapshot --script` works, and its result is judged on another host."""
    root.lay("/root/snapshot.sh", say("snapshot", "--script").out)
    taken = root.sh("sh /root/snapshot.sh")
    said = say("check", "--snapshot", "-", "172.16.0.0/16", stdin=taken.encode())
    assert (said.code, said.lines[0]) == (1, CAPTURED), said.err


def one_file(root: Bare) -> None:
    """hostrouting.pyz finds the overlap, repairs it, and removes all of it again."""
    _use(root, "python3 /mnt/dist/hostrouting.pyz", guard=False)  # it would need a program in PATH


def wheel_with_the_oldest(root: Bare) -> None:
    """The wheel works with the oldest versions that it allows of what it depends on; each of its modules can be imported."""
    _install(root, "oldest")


def wheel_with_the_newest(root: Bare) -> None:
    """The same with the newest versions."""
    _install(root, "newest")


def _install(root: Bare, which: str) -> None:
    root.sh("python3 -m venv --without-pip /opt/hostrouting")
    wheels = f"--no-index --find-links /mnt/wheels/{which} --constraint /mnt/wheels/{which}.txt"
    root.sh(f"{_PIP} --python /opt/hostrouting/bin/python install {wheels} /mnt/dist/hostrouting-*.whl")
    for line in (root.sources.wheels / f"{which}.txt").read_text().split():
        name, version = line.split("==")
        found = f"from importlib.metadata import version; print(version('{name}'))"
        assert root.sh(f'/opt/hostrouting/bin/python -c "{found}"').strip().startswith(version)
    # The test kit needs hypothesis and pytest, and the live view rich, which are not installed.
    root.sh(
        "cd /opt/hostrouting/lib/python3*/site-packages && find hostrouting phases -name '*.py' ! -path '*/testing/*'"
        " ! -name live.py ! -name __main__.py | sed 's,/__init__.py$,,; s,.py$,,; s,/,.,g; s/^/import /' > /root/all.py"
        " && /opt/hostrouting/bin/python -W error /root/all.py"
    )
    _use(root, "/opt/hostrouting/bin/hostrouting")


def package(root: Bare) -> None:
    """The package puts each file where it belongs, works, is complete, and goes without a trace."""
    before = _everything(root)
    told = root.sh("dpkg -i /mnt/dist/hostrouting_*.deb 2>&1")
    assert "warning" not in told.lower(), told
    assert not root.sh("dpkg --verify hostrouting")
    for path in ("usr/bin/hostrouting", "usr/share/doc/hostrouting/copyright"):
        assert (root.here / path).is_file(), path
    assert list((root.here / "usr/share/hostrouting/hostrouting/__pycache__").iterdir())
    _use(root, "hostrouting")
    told = root.sh("dpkg -P hostrouting 2>&1")
    assert "warning" not in told.lower(), told
    assert _everything(root) ^ before == set()


def rpm(root: Bare) -> None:
    """The rpm, installed by the rpm of this machine, works and goes without a trace."""
    before = _everything(root)
    # The root has no packages of rpm. Debian's rpm names Alien, unless it is told that this is meant.
    words = [*root.enter, "--mount", "rpm", "--root", root.top, "--nodeps", "--force-debian", "--dbpath", "/run/rpm"]
    files = list(root.sources.dist.glob("hostrouting-*.rpm"))
    assert files, "there is no rpm, because rpmbuild is not installed here: apt-get install rpm"
    subprocess.run([*words, "--install", str(files[0])], check=True, timeout=120)
    assert list((root.here / "usr/share/hostrouting/hostrouting/__pycache__").iterdir())
    _use(root, "hostrouting")
    subprocess.run([*words, "--erase", "hostrouting"], check=True, timeout=120)
    assert _everything(root) ^ before == set()


def package_that_goes_first(root: Bare) -> None:
    """If the package is removed while a configuration is installed, the routes and boot files stay and work; the guard goes."""
    root.sh("dpkg -i /mnt/dist/hostrouting_*.deb && hostrouting apply --config /root/agent.json")
    enabled = root.here / f"etc/systemd/system/multi-user.target.wants/{GUARD}"
    assert enabled.is_symlink()
    told = root.sh("dpkg -r hostrouting 2>&1")
    assert "hostrouting: the guard needs the command hostrouting, so it is stopped and disabled.\n" in told, told
    assert "install the package again and run: hostrouting remove\n" in told, told
    assert not enabled.is_symlink()
    assert root.ours() == HALVES
    root.ip("route", "flush", "proto", "213")
    root.sh("/etc/hostrouting/static-routes.sh && /etc/hostrouting/check-route-overlap.sh")
    assert root.ours() == HALVES
    root.sh("dpkg -P hostrouting; dpkg -i /mnt/dist/hostrouting_*.deb && hostrouting remove")
    assert not root.ours()


def _everything(root: Bare) -> set[str]:
    """Every file but those that every package changes; `remove` leaves empty directories."""
    listed = root.sh("find / -xdev ! -type d ! -path '/var/lib/dpkg/*' ! -path '/var/log/*' ! -path '/var/cache/*'")
    return set(listed.splitlines())


def _use(root: Bare, command: str, *, guard: bool = True) -> None:
    """Find the overlap, repair it, and remove all of it again."""
    assert root.sh(f"{command} --version") == f"hostrouting {hostrouting.__version__}\n"
    assert root.sh(f"{command} check 172.16.0.0/16", code=1).startswith(CAPTURED)
    if not guard:
        root.lay("/root/agent.json", json.dumps(WITHOUT_GUARD))
    root.sh(f"{command} apply --config /root/agent.json")
    assert root.ours() == HALVES
    assert root.sh(f"{command} check").startswith("OK: every address of 172.16.0.0/16 leaves by eth0")
    root.sh(f"{command} status")
    root.sh(f"{command} remove")
    assert not root.ours()


def booted(release: str, sources: Sources) -> None:
    """Under systemd: an upgrade restarts the guard; a removal stops it, and neither routes, the gate nor a reboot suffer."""
    [deb] = sources.dist.glob("hostrouting_*.deb")
    with host(tree=sources.roots / release) as system:
        system.outside("/root/h.deb").write_bytes(deb.read_bytes())
        system.lay("/root/agent.json", json.dumps(CONFIG))
        system.must("dpkg", "-i", "/root/h.deb")
        system.must("hostrouting", "apply", "--config", "/root/agent.json")
        assert system.show(GUARD, "ActiveState") == "active"
        before = system.show(GUARD, "MainPID")
        system.must("dpkg", "-i", "/root/h.deb")
        wait_for("the guard", lambda: system.show(GUARD, "ActiveState") == "active")
        assert system.show(GUARD, "MainPID") not in {"0", before}
        assert start(system) == 0

        system.must("dpkg", "-P", "hostrouting")
        assert system.show(GUARD, "ActiveState") == "inactive"
        assert ours(system) == HALVES
        system.must("systemctl", "enable", "multi-user.target")
        system.reboot()
        system.settled()
        assert ours(system) == HALVES
        assert system.show(GUARD, "ActiveState") == "inactive"
        assert start(system) == 0
        assert not system.must("systemctl", "--failed", "--plain", "--no-legend").strip()


_PIP = "python3 $(echo /mnt/wheels/pip-*.whl)/pip --disable-pip-version-check --no-cache-dir --quiet"
"""Pip as it is downloaded, because a bare root has none."""


def in_a_root(check: Callable[[Bare], None]) -> Check:
    """The check in a root that is made for it."""

    @functools.wraps(check)
    def checked(release: str, sources: Sources) -> None:
        with bare(release, sources) as root:
            check(root)

    return checked


CHECKS: list[tuple[tuple[str, ...], Check]] = [
    (TOO_OLD, in_a_root(refused_with_one_line)),
    (TOO_OLD, in_a_root(package_is_refused)),
    ((*TOO_OLD, *RELEASES), in_a_root(scripts_of_another_host)),
    ((*TOO_OLD, *RELEASES), in_a_root(snapshot_without_python)),
    (RELEASES, in_a_root(one_file)),
    (RELEASES, in_a_root(wheel_with_the_oldest)),
    (RELEASES, in_a_root(wheel_with_the_newest)),
    (RELEASES, in_a_root(package)),
    (RELEASES, in_a_root(package_that_goes_first)),
    (RELEASES, in_a_root(rpm)),
    (RELEASES, booted),
]
"""What is tried in which releases."""


def oldest(requirement: str) -> str:
    """The requirement for the oldest version that a line of pyproject.toml allows: attrs==23.2."""
    found = re.match(r"([\w-]+)>=([\d.]+)", requirement)
    assert found is not None, f"{requirement} names no oldest version"
    return f"{found[1]}=={found[2]}"


def download(target: Path) -> None:
    """Download pip, and what the wheel depends on, in two directories; and write the versions of each as constraints."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [
        dependency.partition(";")[0].strip()
        for dependency in project["dependencies"]
        if "python_version" not in dependency
    ]
    pip = [shutil.which("pip") or "pip3", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    pip += ["--only-binary=:all:", "--dest"]
    subprocess.run([*pip, str(target), "pip"], check=True)
    for name, lines in (("oldest", [oldest(it) for it in wanted]), ("newest", wanted)):
        subprocess.run([*pip, str(target / name), *lines], check=True)
        found = sorted(path.name.split("-")[:2] for path in (target / name).iterdir())
        (target / f"{name}.txt").write_text("".join(f"{package}=={version}\n" for package, version in found))


def main() -> None:
    """Try everything; exit with 1 if something is not as it should be."""
    dist, roots = (Path(argument).resolve() for argument in sys.argv[1:3])
    failed = 0
    with tempfile.TemporaryDirectory() as wheels:
        sources = Sources(dist, Path(wheels), roots)
        download(sources.wheels)
        for release in sys.argv[3:] or (*TOO_OLD, *RELEASES):
            for releases, check in CHECKS:
                failed += release in releases and not _holds(check, release, sources)
    raise SystemExit(failed > 0)


def _holds(check: Check, release: str, sources: Sources) -> bool:
    """Carry out the check, and print the result."""
    try:
        check(release, sources)
    except Exception:  # noqa: BLE001  the next one is tried all the same
        sys.stdout.write(f"{release}: NOT: {check.__doc__}\n{traceback.format_exc()}")
        return False
    sys.stdout.write(f"{release}: {check.__doc__}\n")
    sys.stdout.flush()
    return True


if __name__ == "__main__":
    main()
