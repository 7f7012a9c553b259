"""Makes the Debian package (`make deb`): the program with all that it needs but Python.

Here: which file goes where, and the format of the package. Not here: the program (`bundle`); the scripts that dpkg runs,
and the command (the folder `debian`).

Debian's own packages of attrs and pyroute2 are older than hostrouting requires, so the package has its own. It brings no
unit: `hostrouting apply` writes the units that the configuration needs, and they stay when the package is removed.

The package is written without dpkg, from its format: so it can be made anywhere, and the same files make the same bytes.
"""

import gzip
import hashlib
import io
import lzma
import os
import re
import sys
import tarfile
from datetime import datetime, timezone
from email.utils import format_datetime
from pathlib import Path

import attrs

from hostrouting.release import __version__
from tests.support.bundle import DEPENDENCIES, ROOT, bundled, licences, moment
from tests.support.package_hook import repository_of


def debian_version(version: str) -> str:
    """The same version for Debian, where 1.0.0rc1 is newer than 1.0.0, but 1.0.0~rc1 is older."""
    return re.sub(r"(?<=\d)(a|b|rc)(?=\d+$)", r"~\1", version) + "-1"


NAME = f"hostrouting_{debian_version(__version__)}_all.deb"
_OWN = Path(__file__).with_name("debian")
_DOC = "usr/share/doc/hostrouting"

_CONTROL = """\
Package: hostrouting
Version: {version}
Architecture: all
Maintainer: The hostrouting developers <{address}>
Installed-Size: {size}
Depends: python3 (>= {python}), iproute2 (>= 5.9)
Suggests: ebtables, nftables, systemd-container
Section: net
Priority: optional
{homepage}Description: find and repair routes that capture a cluster's addresses
 On some GPU hosts, the network of the InfiniBand devices has the same addresses
 as the Kubernetes cluster, and its routes capture packets to the cluster.
 hostrouting finds this, names the route and the static routes that repair it,
 installs these, and does not let a systemd-nspawn machine start before every
 address of the cluster leaves by the right device.
 .
 This package has the Python packages that hostrouting needs, because those of
 Debian are too old. It installs no unit: "hostrouting apply" writes the units
 that the configuration needs. They stay when the package is removed.
"""

_COPYRIGHT = """\
This package contains hostrouting, and the Python packages that it needs.

hostrouting {version}

{licence}
"""
_PART = """
{name} {version}

{licence}
"""
_COMMON = """\
On Debian systems, the texts of these licences are in /usr/share/common-licenses/GPL-2 and
/usr/share/common-licenses/Apache-2.0.
"""


@attrs.frozen
class Packed:
    """One file of the package."""

    content: bytes
    mode: int = 0o644


def package_files() -> dict[str, Packed]:
    """The files that the package installs, by path."""
    found = {f"usr/share/hostrouting/{name}": Packed(content) for name, content in bundled() if _is_used(name)}
    found["usr/bin/hostrouting"] = Packed((_OWN / "hostrouting").read_bytes(), 0o755)
    found["usr/share/python3/runtime.d/hostrouting.rtupdate"] = Packed((_OWN / "rtupdate").read_bytes(), 0o755)
    found["usr/share/lintian/overrides/hostrouting"] = Packed((_OWN / "lintian-overrides").read_bytes())
    found[f"{_DOC}/copyright"] = Packed(_copyright().encode())
    found[f"{_DOC}/changelog.gz"] = Packed(_gzip((ROOT / "CHANGELOG.md").read_bytes()))
    found[f"{_DOC}/changelog.Debian.gz"] = Packed(_gzip(_changes().encode()))
    return dict(sorted(found.items()))


def package() -> bytes:
    """The package."""
    files = package_files()
    sums = "".join(f"{hashlib.md5(it.content).hexdigest()}  {path}\n" for path, it in files.items())  # noqa: S324  as dpkg
    control = {
        "control": Packed(_control(files).encode()),
        "md5sums": Packed(sums.encode()),
        "postinst": Packed((_OWN / "postinst").read_bytes(), 0o755),
        "prerm": Packed((_OWN / "prerm").read_bytes(), 0o755),
    }
    members = {"debian-binary": b"2.0\n", "control.tar.xz": _tar(control), "data.tar.xz": _tar(files)}
    return b"!<arch>\n" + b"".join(_member(name, content) for name, content in members.items())


def write_package(folder: Path) -> Path:
    """Write the package into a directory; return its path."""
    path = folder / NAME
    unfinished = path.with_name(f"{NAME}.new")
    unfinished.write_bytes(package())
    unfinished.replace(path)
    return path


def _is_used(name: str) -> bool:
    """Whether a file of the bundle belongs into the package, which has all licences in one file and needs no lists of pip."""
    return not re.search(r"\.dist-info/(licenses/|\w+\.txt$)", name)


def _control(files: dict[str, Packed]) -> str:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    [python] = re.findall(r'^requires-python = ">=([\d.]+)"$', project, re.MULTILINE)
    repository = repository_of(ROOT)
    return _CONTROL.format(
        version=debian_version(__version__),
        address=os.environ.get("DEBEMAIL") or _NO_ADDRESS,
        size=sum(len(file.content) // 1024 + 1 for file in files.values()),
        python=python,
        homepage=f"Homepage: {repository}\n" if repository else "",
    )


_NO_ADDRESS = "maintainers@hostrouting.invalid"
"""Until the project has an address. Whoever publishes the package sets DEBEMAIL, as for every tool of Debian."""


def _copyright() -> str:
    own = (ROOT / "LICENSE").read_text(encoding="utf-8").strip()
    text = _COPYRIGHT.format(version=__version__, licence=own)
    for name in DEPENDENCIES:
        version, licence = licences(name)
        text += _PART.format(name=name, version=version, licence=licence.strip())
    return f"{text}\n{_COMMON}"


def _changes() -> str:
    date = format_datetime(datetime.fromtimestamp(moment(), timezone.utc))
    address = os.environ.get("DEBEMAIL") or _NO_ADDRESS
    told = f"  * Version {__version__}; see changelog.gz."
    return f"hostrouting ({debian_version(__version__)}) unstable; urgency=medium\n\n{told}\n\n -- The hostrouting developers <{address}>  {date}\n"


def _gzip(content: bytes) -> bytes:
    return gzip.compress(content, mtime=0)


def _tar(files: dict[str, Packed]) -> bytes:
    """The files, with every directory that leads to them, all of root."""
    folders = {str(parent) for path in files for parent in Path(path).parents if str(parent) != "."}
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for path in ["", *sorted({*folders, *files})]:
            info = tarfile.TarInfo(f"./{path}")
            info.mtime, info.uname, info.gname = moment(), "root", "root"
            if path in files:
                info.size, info.mode = len(files[path].content), files[path].mode
                archive.addfile(info, io.BytesIO(files[path].content))
            else:
                info.type, info.mode = tarfile.DIRTYPE, 0o755
                archive.addfile(info)
    return lzma.compress(stream.getvalue(), preset=6)


def _member(name: str, content: bytes) -> bytes:
    """A file in an archive of ar."""
    head = f"{name:<16}{moment():<12}{0:<6}{0:<6}{'100644':<8}{len(content):<10}`\n"
    return head.encode() + content + b"\n" * (len(content) % 2)


if __name__ == "__main__":
    sys.stdout.write(f"{write_package(Path(sys.argv[1]))}\n")
