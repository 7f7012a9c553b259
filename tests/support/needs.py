"""What a test needs of the machine: root, or programs. Where one is missing, the test is skipped and the summary says how to get it.

Here: the one table of programs and the Debian packages that contain them; `.ci/run` installs from it, the mark `needs` and
`require` look into it, and the end of a run adds it up. Not here: what a test does with a program.

As a script it prints the packages that this machine lacks: `python3 tests/support/needs.py`. It needs Python alone.
"""

import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterable
from functools import cache

PACKAGES = {
    "bash": "bash",
    "busybox": "busybox",
    "dash": "dash",
    "debian-archive-keyring": "debian-archive-keyring",  # keys, with which debootstrap on Ubuntu trusts Debian's packages
    "debootstrap": "debootstrap",
    "ebtables": "ebtables",
    "ebtables-nft": "iptables",
    "gawk": "gawk",
    "gcc": "gcc",
    "ip": "iproute2",
    "iptables-legacy": "iptables",
    "iptables-nft": "iptables",
    "make": "make",
    "mawk": "mawk",
    "nft": "nftables",
    "original-awk": "original-awk",
    "prometheus": "prometheus",
    "prometheus-node-exporter": "prometheus-node-exporter",
    "promtool": "prometheus",
    "radvd": "radvd",
    "shellcheck": "shellcheck",
    "spin": "spin",
    "ssh": "openssh-client",
    "sshd": "openssh-server",
    "systemctl": "systemd",
    "systemd-analyze": "systemd",
    "systemd-nspawn": "systemd-container",
}
"""What a test can need in addition to root, and the Debian package that contains it."""

FILES = {"debian-archive-keyring": "/usr/share/keyrings/debian-archive-keyring.gpg"}
"""The file that shows that a package is there, where that is not a program."""

_BEGIN = "it needs "

PATH = f"{os.environ.get('PATH', os.defpath)}:/usr/local/sbin:/usr/sbin:/sbin"
"""Where programs are: a user's PATH has none of the administrator's, and many of them serve a user, too."""


def absent(names: Iterable[str]) -> list[str]:
    """The needs that this machine, or this process, does not meet. Names that are not in the table are mistakes."""
    return [name for name in names if not _is_met(name)]


def _is_met(name: str) -> bool:
    if name == "root":
        return os.geteuid() == 0 and _may_make_namespaces()
    assert name in PACKAGES, f"tests/support/needs.py does not know {name}"
    if name in FILES:
        return os.path.exists(FILES[name]) and os.path.getsize(FILES[name]) > 0
    return shutil.which(name, path=PATH) is not None


@cache
def _may_make_namespaces() -> bool:
    """In a container, root often may not."""
    return not subprocess.run(["unshare", "--mount", "--net", "true"], capture_output=True, check=False).returncode


def require(*names: str) -> None:
    """Skip the test that runs now if a need is not met."""
    import pytest  # noqa: PLC0415  as a script, this needs Python alone

    if lacking := absent(names):
        pytest.skip(_BEGIN + ", ".join(lacking))


def packages_for(names: Iterable[str]) -> list[str]:
    """The Debian packages that contain these programs."""
    return sorted({PACKAGES[name] for name in names if name in PACKAGES})


def advice(reasons: Iterable[str]) -> list[str]:
    """One line for each reason of these skips, the most frequent first, and one with the command that would run them all."""
    counted = Counter(reason.removeprefix("Skipped: ") for reason in reasons)
    lacking = {name for reason in counted if reason.startswith(_BEGIN) for name in reason[len(_BEGIN) :].split(", ")}
    lines = [f"{number:5d} skipped: {reason}" for reason, number in counted.most_common()]
    packages = packages_for(lacking)
    if "root" in lacking:
        install = f"apt-get install {' '.join(packages)} && " if packages else ""
        who = "root" if os.geteuid() else "a root that may make namespaces (in a container: --privileged)"
        lines.append(f"To run these tests too, as {who}: {install}make test")
    elif packages:
        lines.append(
            f"To run these tests too: apt-get install {' '.join(packages)}{', as root' if os.geteuid() else ''}"
        )
    return lines


if __name__ == "__main__":
    print(*packages_for(absent(PACKAGES)))  # noqa: T201  what the script is for
