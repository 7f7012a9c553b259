"""The program with everything that it needs but Python: the files that hostrouting.pyz and the Debian package share.

The packages are taken from the working tree, and what they depend on from the environment that runs this. The same files
and versions give the same bundle, wherever they were checked out and installed.
"""

import os
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Of files of ours: an editor may have left others.
KINDS = (".py", ".pyi", ".sh", ".html", ".typed", ".bash")
# exceptiongroup is for Python 3.10; it needs typing-extensions there.
DEPENDENCIES = ("attrs", "pyroute2", "exceptiongroup", "typing-extensions")
# These tell where and how pip installed a package, which differs from one environment to the next.
OF_PIP = {"INSTALLER", "RECORD", "REQUESTED", "direct_url.json"}


def bundled() -> Iterator[tuple[str, bytes]]:
    """Each file of the bundle, with its name in it."""
    yield "__main__.py", (ROOT / "hostrouting" / "__main__.py").read_bytes()
    for package in ("hostrouting", "phases"):
        for path in sorted((ROOT / package).rglob("*")):
            if path.is_file() and path.suffix in KINDS:
                yield str(path.relative_to(ROOT)), path.read_bytes()
    for name in DEPENDENCIES:
        for file in sorted(distribution(name).files or (), key=str):
            of_pip = file.parts[0].endswith(".dist-info") and file.name in OF_PIP
            if not (of_pip or file.parts[0] == ".." or "__pycache__" in file.parts or file.suffix == ".pyi"):
                yield str(file), Path(str(file.locate())).read_bytes()


def licences(name: str) -> tuple[str, str]:
    """The version of a dependency, and the text of its licence or, where it has several, which these are."""
    found = distribution(name)
    [text] = [
        file.read_text(encoding="utf-8") for file in found.files or () if file.parts[-2:] == ("licenses", "LICENSE")
    ]
    return found.version, text


def moment() -> int:
    """The time of what is built, in seconds since 1970: SOURCE_DATE_EPOCH or, without it, the same as hatchling's."""
    return int(os.environ.get("SOURCE_DATE_EPOCH") or 1580601600)
