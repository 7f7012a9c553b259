"""What the packages offer: each `__all__` is true, complete and cheap to import."""

import ast
import importlib
import json
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

import hostrouting
import phases
from hostrouting import fleet
from tests.support.cases import for_each
from tests.support.programs import completed

ROOT = Path(__file__).resolve().parent.parent
SOURCES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path.read_text(encoding="utf-8")
    for package in ("phases", "hostrouting")
    for path in sorted((ROOT / package).rglob("*.py"))
    if path.name != "__main__.py"
}
MODULES = sorted(SOURCES)


@cache
def takers() -> dict[str, list[tuple[str, list[str]]]]:
    """For each module, which others import from it, and what."""
    found: dict[str, list[tuple[str, list[str]]]] = {}
    for other, source in SOURCES.items():
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ImportFrom) and node.module:
                found.setdefault(node.module, []).append((other, [alias.name for alias in node.names]))
    return found


@for_each("name", MODULES)
def test_all_is_true(name: str) -> None:
    """A module says what belongs in it. Each name in an `__all__` is there, once."""
    module = importlib.import_module(name)
    assert (module.__doc__ or "").strip()
    offered = getattr(module, "__all__", [])
    assert len(set(offered)) == len(offered)
    assert [it for it in offered if not hasattr(module, it)] == []


@for_each("name", MODULES)
def test_nothing_public_is_forgotten(name: str) -> None:
    """A name that another module imports is in the `__all__`, where there is one, and begins with no underscore."""
    offered = getattr(importlib.import_module(name), "__all__", None)
    for other, taken in takers().get(name, ()):
        beyond = {it for it in taken if f"{name}.{it}" not in MODULES and not it.startswith("__")}
        assert [it for it in beyond if it.startswith("_")] == [], f"{other} takes what is private"
        assert offered is None or beyond <= {*offered}, f"{other} takes more from {name}"


def test_each_name_is_loaded_from_its_home() -> None:
    """The three lists of phases (for readers, for type checkers, for loading) name the same things."""
    tree = ast.parse(SOURCES["phases"])
    annotated = [
        node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and "phases." in (node.module or "")
    ]
    assert {name for names in phases._HOMES.values() for name in names} == set(phases.__all__)
    assert {alias.name for node in annotated for alias in node.names} == set(phases.__all__)


@pytest.mark.parametrize("package", [phases, hostrouting, fleet], ids=lambda package: package.__name__)
def test_no_module_hides_a_name(package: ModuleType) -> None:
    """No module is called as something that its package offers: importing it would put it in that name's place."""
    assert set(package.__all__) <= set(dir(package))
    assert not {path.stem for path in Path(package.__file__ or "").parent.glob("*")} & set(package.__all__)


def test_unknown_name() -> None:
    """A name that phases does not offer is an ordinary AttributeError."""
    with pytest.raises(AttributeError, match="module 'phases' has no attribute 'wizardry'"):
        phases.wizardry  # type: ignore[attr-defined]  # noqa: B018  the point of this test


@pytest.mark.linux
def test_import_is_lean() -> None:
    """Importing both packages, and running a task, loads neither asyncio nor rich nor pyroute2."""
    code = (
        "import hostrouting, phases, sys, json\n"
        "phases.run(phases.serial(phases.task('a')(lambda ctx: 1)))\n"
        "print(json.dumps(sorted(sys.modules)))"
    )
    done = completed([sys.executable, "-c", code], check=True)
    loaded = set(json.loads(done.stdout))
    assert "phases.running" in loaded
    assert not loaded & {"asyncio", "rich", "pyroute2", "multiprocessing", "ssl"}


@pytest.mark.linux
@pytest.mark.parametrize("text", ["", "raise RuntimeError('for another Python')", None])
def test_foreign_phases(tmp_path: Path, text: str | None) -> None:
    """If `phases` is missing or belongs to another project, hostrouting names the command that mends this.

    So do its names when they are imported, and its command line.
    """
    shutil.copytree(Path(hostrouting.__file__).parent, tmp_path / "hostrouting", ignore=shutil.ignore_patterns("*.pyc"))
    if text is not None:
        (tmp_path / "phases").mkdir()
        (tmp_path / "phases" / "__init__.py").write_text(text, encoding="utf-8")
    begin = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); "
    hide = "sys.modules['phases'] = None; " if text is None else ""
    done = python(begin + hide + "import hostrouting.tasks")
    assert done.returncode == 1
    assert "ForeignPhases: the package 'phases' " in done.stderr
    assert f"run: {sys.executable} -m pip install --force-reinstall --no-deps " in done.stderr
    runs = "from hostrouting.cli import main; print([main([word]) for word in ('--version', 'status')], main(['status', '--json']))"
    asked = f"\ntry: from hostrouting import Configure\nexcept ImportError as error: print(error)\n{runs}"
    done = python(begin + hide + asked)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    name, version, *document, codes = done.stdout.splitlines()
    assert name.startswith("the package 'phases' ")
    assert version.startswith("hostrouting 1")
    assert document[0].startswith("{")
    assert codes == "[3, 3] 3"
    assert done.stderr.count("hostrouting: the package 'phases' ") == 3
    assert "pip install --force-reinstall" in done.stderr


def python(code: str) -> subprocess.CompletedProcess[str]:
    """Run this text in an interpreter of its own."""
    return completed([sys.executable, "-c", code])


@pytest.mark.linux
def test_nothing_is_loaded_for_a_rewrite_that_nobody_wants() -> None:
    """On a host without the probe rewrite, the ways to nftables and to the metadata are not loaded."""
    code = (
        "import sys\n"
        "import hostrouting.host.host\n"
        "print(*[name for name in sys.modules if name.startswith(('hostrouting.kernel.netlink', 'hostrouting.config'))])\n"
        "from hostrouting import Configure, Host, HostRoutingConfig\n"
        "Host.local()\n"
        "print(Configure(HostRoutingConfig(), host=Host.offline('/nowhere')).preview().is_empty)\n"
        "ways = 'kernel.nftables', 'host.metadata'\n"
        "print(*[name for name in sys.modules if name.startswith(tuple(f'hostrouting.{way}' for way in ways))])\n"
    )
    done = completed([sys.executable, "-c", code], check=True)
    assert done.stdout.splitlines() == ["", "True", ""]


@pytest.mark.linux
def test_a_check_of_a_host_without_our_files_loads_nothing_that_reads_them() -> None:
    """Neither the gate nor a task is loaded to find out that none is installed, nor a clean-up to find it unwanted."""
    code = (
        "import sys\n"
        "from hostrouting import Host, HostRoutingConfig\n"
        "from hostrouting.cli.commands.check import Standings, gate_findings, installed_config\n"
        "host = Host.offline('/nowhere')\n"
        "print(installed_config(host), gate_findings(host), Standings.on(host, HostRoutingConfig()))\n"
        "names = 'hostrouting.boot', 'hostrouting.tasks', 'hostrouting.kernel.marking', 'phases.report'\n"
        "print(*[name for name in sys.modules if name.startswith(names)])\n"
        "import hostrouting.tasks.configure\n"
        "print(*[name for name in sys.modules if name.startswith('hostrouting.tasks.cleanup.')])\n"
    )
    done = completed([sys.executable, "-c", code], check=True)
    assert done.stdout.splitlines() == [
        "None () Standings(found=(), troubles=())",
        "",
        "hostrouting.tasks.cleanup.keep",
    ]
