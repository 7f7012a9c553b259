"""The Debian package, read by dpkg and checked by lintian. tests/system/packages.py installs it (`make packages`)."""

import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

import hostrouting
from hostrouting.boot.units import render_guard_unit
from tests.support.bundle import DEPENDENCIES
from tests.support.debian_package import NAME, debian_version, package_files
from tests.support.programs import completed

pytestmark = [pytest.mark.nightly, pytest.mark.linux, pytest.mark.needs("dpkg-deb")]


def ran(words: Sequence[str | Path]) -> subprocess.CompletedProcess[str]:
    """Run a program."""
    environment = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}
    return completed(words, env=environment)


@pytest.fixture(scope="module")
def package(published: dict[str, Path]) -> Path:
    """The package."""
    return published[".deb"]


@pytest.fixture(scope="module")
def tree(package: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the package, as dpkg unpacks them."""
    folder = tmp_path_factory.mktemp("tree")
    done = ran(["dpkg-deb", "--raw-extract", str(package), str(folder)])
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.parametrize(
    ("older", "newer"), [("1.0.0rc1", "1.0.0"), ("1.0.0rc9", "1.0.0rc10"), ("1.0.0b2", "1.0.0rc1")]
)
def test_versions_sort_for_dpkg_as_for_python(older: str, newer: str) -> None:
    """A release candidate is older than the release."""
    words = ["dpkg", "--compare-versions", debian_version(older), "lt", debian_version(newer)]
    assert ran(words).returncode == 0


def test_fields(package: Path) -> None:
    """Dpkg reads name, version and dependencies; the oldest Python is that of the wheel."""
    fields = ["Package", "Version", "Architecture", "Depends"]
    done = ran(["dpkg-deb", "--field", str(package), *fields])
    assert dict(line.split(": ") for line in done.stdout.splitlines()) == {
        "Package": "hostrouting",
        "Version": debian_version(hostrouting.__version__),
        "Architecture": "all",
        "Depends": "python3 (>= 3.10), iproute2 (>= 5.9)",
    }
    assert package.name == NAME


def test_files(package: Path, tree: Path) -> None:
    """Each file is where it belongs, and of root; others than those below /usr are not touched."""
    listed = [line.split(maxsplit=5) for line in ran(["dpkg-deb", "--contents", str(package)]).stdout.splitlines()]
    assert {(words[0], words[1]) for words in listed} == {
        ("drwxr-xr-x", "root/root"),
        ("-rw-r--r--", "root/root"),
        ("-rwxr-xr-x", "root/root"),
    }
    assert {words[5].split("/")[1] for words in listed} == {"", "usr"}
    executable = {words[5] for words in listed if words[0] == "-rwxr-xr-x"}
    assert executable == {"./usr/bin/hostrouting", "./usr/share/python3/runtime.d/hostrouting.rtupdate"}
    licences = (tree / "usr/share/doc/hostrouting/copyright").read_text()
    assert all(f"\n{name} " in licences for name in ("hostrouting", *DEPENDENCIES))


def test_sums(tree: Path) -> None:
    """The sums by which `dpkg --verify` finds changed files are right, and there is one for each file."""
    done = subprocess.run(
        ["md5sum", "--check", "--strict", "--quiet", "DEBIAN/md5sums"], cwd=tree, check=False, capture_output=True
    )
    assert (done.returncode, done.stderr) == (0, b"")
    summed = {line.split("  ")[1] for line in (tree / "DEBIAN/md5sums").read_text().splitlines()}
    assert summed == {str(path.relative_to(tree)) for path in (tree / "usr").rglob("*") if path.is_file()}
    assert summed == set(package_files())


@pytest.mark.needs("lintian")
def test_lintian(package: Path) -> None:
    """Lintian finds nothing except the few things that the package explains."""
    done = ran(["lintian", "--allow-root", "--display-info", "--fail-on", "error,warning,info", str(package)])
    assert (done.returncode, done.stdout) == (0, "")


def test_no_unit_and_no_configuration(tree: Path) -> None:
    """The package has no unit and no file below /etc: `apply` writes those, and they outlive the package."""
    assert not [path for path in (tree / "usr").rglob("*") if path.suffix in {".service", ".conf", ".preset"}]
    assert {path.name for path in (tree / "DEBIAN").iterdir()} == {"control", "md5sums", "postinst", "prerm"}
    assert not (tree / "etc").exists()


def test_the_guard_of_the_package() -> None:
    """The line by which the scripts of the package recognise a guard that runs its program is one that `apply` writes."""
    line = re.escape("ExecStart=/usr/bin/hostrouting guard")
    assert re.search(f"^{line}$", render_guard_unit("/usr/bin/hostrouting"), re.MULTILINE)
    for name in ("postinst", "prerm"):
        script = Path(__file__).parent / "support/debian" / name
        assert "'^ExecStart=/usr/bin/hostrouting guard$'" in script.read_text()


@pytest.mark.needs("root")
def test_the_command(tree: Path) -> None:
    """The command starts from the files of the package alone, with the Python of the system."""
    version = "import sys; sys.exit(sys.version_info < (3, 10))"
    if ran(["/usr/bin/python3", "-c", version]).returncode:
        pytest.skip("the Python of this system is too old")
    script = 'mount -t overlay overlay -o "lowerdir=$1/usr/share:/usr/share" /usr/share && shift && exec "$@"'
    enter = ["unshare", "--mount", "sh", "-c", script, "sh", str(tree), str(tree / "usr/bin/hostrouting")]
    done = ran([*enter, "--version"])
    assert (done.returncode, done.stdout) == (0, f"hostrouting {hostrouting.__version__}\n"), done.stderr
