"""What a test needs of the machine: root, or a program. Where one is missing, the test is skipped.

As a script it prints the Debian packages that this machine lacks: `python3 tests/support/needs.py`.
It needs Python alone.
"""

import os
import shutil
import subprocess
from collections.abc import Iterable
from functools import cache

PACKAGES = {
    "dpkg-deb": "dpkg",
    "debootstrap": "debootstrap debian-archive-keyring",  # the keys that it trusts
    "ebtables-nft": "iptables",
    "ifup": "ifupdown",
    "ip": "iproute2",
    "make": "make",
    "nft": "nftables",
    "nmcli": "network-manager",
    "openssl": "openssl",
    "openvpn": "openvpn",
    "radvd": "radvd",
    "shellcheck": "shellcheck",
    "systemctl": "systemd",
    "systemd-analyze": "systemd",
    "systemd-nspawn": "systemd-container",
    "vtysh": "frr",
}
"""The programs that the tests use, and the Debian package that contains each."""
PATH = f"{os.environ.get('PATH', os.defpath)}:/usr/local/sbin:/usr/sbin:/sbin"
"""Where programs are: a user's PATH has none of the administrator's."""


def absent(names: Iterable[str]) -> list[str]:
    """The needs that this machine, or this process, does not meet."""
    return [name for name in names if _is_missing(name)]


@cache
def _is_missing(name: str) -> bool:
    if name == "root":
        words = ["unshare", "--mount", "--net", "true"]  # in a container, root often may not
        return (
            os.geteuid() != 0
            or subprocess.run(words, capture_output=True, check=False).returncode != 0
        )
    if name.startswith("/dev/"):
        return not os.path.exists(name)
    assert name in PACKAGES, f"tests/support/needs.py does not know {name}"
    return shutil.which(name, path=PATH) is None


def require(*names: str) -> None:
    """Skip the test that runs now if a need is not met; the reason names the package."""
    import pytest  # noqa: PLC0415  as a script, this needs Python alone

    missing = absent(names)
    if missing:
        packages = " ".join(PACKAGES[name] for name in missing if name in PACKAGES)
        where = f" (Debian: {packages})" if packages else ""
        pytest.skip(f"it needs {', '.join(missing)}{where}")


if __name__ == "__main__":
    missing_packages = {PACKAGES[name] for name in absent(PACKAGES)}
    print(*sorted(missing_packages))  # noqa: T201  what the script is for
