"""Makes the rpm: the same files as the Debian package, for systems with rpm and Python 3.10 or newer.

Here: what differs from Debian. Not here: the files (`debian_package`). rpmbuild, which Debian has in the package rpm, writes
it; the same files and the same rpmbuild make the same bytes.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from hostrouting.release import __version__
from tests.support.bundle import moment
from tests.support.debian_package import debian_version, package_files

# Where Debian's package has a file, and where that of rpm has it; None: Debian alone needs it.
_PLACES = {
    "usr/share/python3/": None,
    "usr/share/lintian/": None,
    "usr/share/doc/hostrouting/changelog": None,
    "usr/share/doc/hostrouting/copyright": "usr/share/licenses/hostrouting/LICENSE",
}
_SPEC = """\
Name: hostrouting
Version: {version}
Release: 1
Summary: Find and repair routes that capture a cluster's addresses
License: MIT AND (Apache-2.0 OR GPL-2.0-or-later) AND PSF-2.0
BuildArch: noarch
AutoReqProv: no
Requires: python3 >= 3.10, iproute >= 5.9
Suggests: ebtables, nftables, systemd-container
%description
On some GPU hosts, the network of the InfiniBand devices has the same addresses
as the Kubernetes cluster, and its routes capture packets to the cluster.
hostrouting finds this, names the route and the static routes that repair it,
installs these, and does not let the gated units start before every address of
the cluster leaves by the right device.
%install
cp -a {tree}/. %{{buildroot}}
%files
{files}
%post
python3 -I -m compileall -q /usr/share/hostrouting || :
if [ "$1" -gt 1 ] && [ -d /run/systemd/system ]; then {guarded} && systemctl try-restart {unit} || :; fi
%preun
# What `hostrouting apply` has installed stays. Only the guard needs the program.
if [ "$1" -eq 0 ] && {guarded}; then
    [ ! -d /run/systemd/system ] || systemctl stop {unit} || :
    rm -f /etc/systemd/system/multi-user.target.wants/{unit}
    echo 'hostrouting: the guard needs the command hostrouting, so it is stopped and disabled.'
fi
find /usr/share/hostrouting -name __pycache__ -prune -exec rm -rf {{}} +
"""
_UNIT = "hostrouting-guard.service"
_GUARDED = f"grep -qs '^ExecStart=/usr/bin/hostrouting guard$' /etc/systemd/system/{_UNIT}"
_MACROS = {
    "_build_id_links": "none",
    "__os_install_post": "%{nil}",
    "_buildhost": "reproducible",
    "use_source_date_epoch_as_buildtime": "1",
    "clamp_mtime_to_source_date_epoch": "1",
    "_binary_payload": "w6.xzdio",
}


def write_rpm(folder: Path) -> Path:
    """Write the rpm into a directory; return its path."""
    with tempfile.TemporaryDirectory() as work:
        tree, listed = Path(work, "tree"), ["/usr/share/hostrouting"]
        for path, file in package_files().items():
            place = next((new and path.replace(old, new) for old, new in _PLACES.items() if path.startswith(old)), path)
            if place is None:
                continue
            target = tree / place
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(file.content)
            target.chmod(file.mode)
            if not place.startswith("usr/share/hostrouting/"):
                listed.append(f"/{place}")
        spec = Path(work, "hostrouting.spec")
        version = debian_version(__version__).removesuffix("-1")
        files = "\n".join(listed)
        spec.write_text(_SPEC.format(version=version, tree=tree, files=files, unit=_UNIT, guarded=_GUARDED))
        macros = [
            word for name, value in {**_MACROS, "_topdir": work}.items() for word in ("--define", f"{name} {value}")
        ]
        environment = {**os.environ, "SOURCE_DATE_EPOCH": str(moment()), "LC_ALL": "C.UTF-8"}
        subprocess.run(["rpmbuild", "-bb", "--quiet", *macros, str(spec)], env=environment, check=True)
        [made] = Path(work, "RPMS").rglob("*.rpm")
        return Path(shutil.copy(made, folder))


if __name__ == "__main__":
    sys.stdout.write(f"{write_rpm(Path(sys.argv[1]))}\n")
