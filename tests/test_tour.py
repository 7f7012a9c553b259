"""`help(hostrouting)` and `help(phases)` are tours: every name in them is there, and every public name is in them."""

import pkgutil
import re
import textwrap
from types import ModuleType

import pytest

import hostrouting
import phases

PACKAGES = pytest.mark.parametrize("package", [phases, hostrouting], ids=["phases", "hostrouting"])
ROW = re.compile(r"^    (\w+(?:, \w+)*)  +\S", re.MULTILINE)


def rows(package: ModuleType) -> list[str]:
    """The names at the left of the tour's rows."""
    return [name for names in ROW.findall(package.__doc__ or "") for name in names.split(", ")]


@PACKAGES
def test_every_public_name_has_a_row(package: ModuleType) -> None:
    """The tour has one row for each public name, and no other row."""
    assert sorted(rows(package)) == sorted(set(package.__all__) - {"__version__"})


@PACKAGES
def test_every_name_in_it_is_there(package: ModuleType) -> None:
    """What the text of the tour names, a module or a method of something, is there."""
    said = set(re.findall(r"`([a-zA-Z_]\w*(?:\.\w+)+)`", package.__doc__ or ""))
    for name in said:
        top = name if name.split(".")[0] in {"hostrouting", "phases"} else f"{package.__name__}.{name}"
        assert pkgutil.resolve_name(top) is not None


@PACKAGES
def test_its_example_runs(package: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    """The example at the head of the tour does what it says."""
    text = (package.__doc__ or "").split("::\n\n", maxsplit=1)[1]
    code = textwrap.dedent(re.split(r"\n(?=\d\. )", text)[0])
    exec(compile(code, package.__name__, "exec"), {})  # noqa: S102  it is ours, and this is its test
    out = capsys.readouterr().out
    words = ["bootstrap: ok after", "pull-images"] if package is phases else ["OVERLAP: expected CIDR 172.16.0.0/16"]
    assert all(word in out for word in words)


@PACKAGES
def test_rows_are_read(package: ModuleType) -> None:
    """Rows are of one shape: one that is indented otherwise would be missed above."""
    assert len(rows(package)) > 30
