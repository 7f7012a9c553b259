"""The files that are published, as `make dist` builds them: the sdist, the wheel, hostrouting.pyz and the Debian package.

Here: building them from a copy of this checkout, once for all workers of a run. Not here: what has to be in them.
"""

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
_UNWANTED = (".git", ".venv", ".cache", "dist", "__pycache__", ".hypothesis", "*.egg-info", ".coverage")


def copy_checkout(target: Path, *, closed: bool = False) -> Path:
    """A copy of this checkout; with `closed`, as whoever has the umask 077 has it, and of another day."""
    shutil.copytree(ROOT, target, ignore=shutil.ignore_patterns(*_UNWANTED))
    for path in target.rglob("*") if closed else ():
        path.chmod(0o700 if path.is_dir() or path.stat().st_mode & 0o100 else 0o600)
        os.utime(path, (1e9, 1e9))
    return target


def build(source: Path, *, only_wheel: bool = False, **environment: str) -> dict[str, Path]:
    """What `make dist` builds from these files, by the end of its name."""
    folder = source.with_name(f"{source.name}-dist")
    folder.mkdir()
    builds = [
        ["hatchling", "build", "--directory", str(folder)],
        ["tests.support.zipped", str(folder / "hostrouting.pyz")],
        ["tests.support.debian_package", str(folder)],
    ]
    for words in [[*builds[0], "--target", "wheel"]] if only_wheel else builds:
        subprocess.run(
            [sys.executable, "-m", *words],
            cwd=source,
            check=True,
            capture_output=True,
            env={**os.environ, **environment},
            umask=0o077 if environment else 0o022,
            timeout=300,
        )
    return _by_end(folder)


def published_files(config: pytest.Config, base: Path) -> dict[str, Path]:
    """The four published files, by the end of their names. The first worker builds them; `base` is its directory."""
    top = base.parent if hasattr(config, "workerinput") else base  # of a worker, the parent is that of the run
    place = top / "published"
    with (top / "published.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.exists():
            unfinished = top / "published.new"
            shutil.rmtree(unfinished, ignore_errors=True)
            build(copy_checkout(unfinished / "source"))
            (unfinished / "source-dist").rename(place)
    return _by_end(place)


def _by_end(folder: Path) -> dict[str, Path]:
    return {path.suffix: path for path in folder.iterdir()}
