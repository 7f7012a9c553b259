"""Starting: what an import costs, and what each command of the command line costs from nothing to its answer.

The commands run in this process's private network namespace (see `private`), where there is one.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.benchmarks.contest import Contest, Goal
from tests.benchmarks.private import FABRIC
from tests.benchmarks.turns import in_turn

__all__ = ["command_contests", "import_contest", "shares"]

_ATTRS, _BOTH, _NOTHING = "import attrs", "import hostrouting, phases", "an interpreter alone"
_OTHERS, _ALL = "the modules of others that {} loads", "all modules that {} loads"
# Some names in the report are not those of modules that can be loaded, such as `zipimport` in a part of Python.
_LOAD = """
import sys
for module in sys.argv[1:]:
    try:
        __import__(module)
    except ImportError:
        pass
"""
_LIMITS = {"check": 7.0}  # in interpreters that do nothing
_WITHOUT_ATTRS = (
    "do without attrs. An interpreter with attrs is 4 of its 9, and with Python's other modules 5. Ours are 4: the methods"
    " that attrs compiles for 25 classes at each start 1.2, 46 NamedTuples 0.6, loading all else in 73 modules 1.3, and"
    " the check itself 0.9. With 120 lines of our own that compile a method when it is first called, it would take 7.2"
)
_KEPT_OUT = ("pyroute2", "asyncio", "rich")
_CHECKED = f"import sys, hostrouting, phases; print([it for it in {_KEPT_OUT} if it in sys.modules])"
# A line of `python -X importtime`: its own microseconds, and the module.
_IMPORT = re.compile(r"^import time:\s+(\d+) \|\s+\d+ \|\s+(\S+)$", re.MULTILINE)
_OWNERS = {"hostrouting": "hostrouting", "phases": "hostrouting", "attr": "attrs", "attrs": "attrs"}
_OWNERS |= {"pyroute2": "pyroute2"}


def import_contest() -> Contest:
    """How long a new interpreter takes until the packages are there."""
    loaded = _python("-c", _CHECKED)
    used = f"{_BOTH}; phases.execute"
    statements = {
        _BOTH: "import hostrouting, phases",
        _ATTRS: "import attrs",
        _NOTHING: "pass",
        used: "import hostrouting, phases; phases.execute, phases.serial",
    }
    methods = {name: _runner("-c", code) for name, code in statements.items()}
    note = f"of {', '.join(_KEPT_OUT)} it loads {loaded.strip()}"
    goals = (Goal(_BOTH, 1.5, _ATTRS), Goal(used, None, _ATTRS))
    return Contest("import", in_turn(methods, rounds=20), goals, notes=(note,))


def command_contests(folder: Path) -> Iterator[Contest]:
    """--help, plan and check; each with where its milliseconds go."""
    config = folder / "config.json"
    halves = ["172.16.0.0/17", "172.16.128.0/17"]
    wanted = {"enabled": True, "routes": [{"destination": half} for half in halves]}
    config.write_text(json.dumps({"staticRoutes": wanted, "routeOverlap": {"expectedCidrs": [FABRIC[4]]}}))
    commands = {"--help": ["--help"], "plan": ["plan", "--config", str(config)], "check": ["check", FABRIC[4]]}
    reports = {
        name: _python("-X", "importtime", "-m", "hostrouting", *words, errors=True) for name, words in commands.items()
    }
    methods = {f"hostrouting {name}": _runner("-m", "hostrouting", *words) for name, words in commands.items()}
    methods |= {_OTHERS.format(name): _runner("-c", _LOAD, *others(report)) for name, report in reports.items()}
    methods |= {_ALL.format(name): _runner("-c", _LOAD, *modules(report)) for name, report in reports.items()}
    times = in_turn({**methods, _NOTHING: _runner("-c", "pass")}, rounds=10)
    for name, report in reports.items():
        ours, loads = f"hostrouting {name}", (_ALL.format(name), _OTHERS.format(name))
        goals = (
            Goal(ours, _LIMITS.get(name), _NOTHING, _WITHOUT_ATTRS),
            *(Goal(load, None, _NOTHING) for load in loads),
        )
        values = {it: times[it] for it in (ours, *loads, _NOTHING)}
        spent = ", ".join(f"{owner} {milliseconds:.0f}" for owner, milliseconds in shares(report))
        note = f"loading modules takes, in ms (counting them makes it slower): {spent}"
        yield Contest(f"start to end, {name}", values, goals, notes=(note,))


def shares(report: str) -> list[tuple[str, float]]:
    """From what `python -X importtime` says: the milliseconds by whose modules were loaded, the most first."""
    found: dict[str, float] = {}
    for own, module in _IMPORT.findall(report):
        owner = _OWNERS.get(module.split(".")[0], "the standard library")
        found[owner] = found.get(owner, 0.0) + int(own) / 1000
    return sorted(found.items(), key=lambda it: -it[1])


def modules(report: str) -> list[str]:
    """All modules in what `python -X importtime` says, in the order in which they were loaded."""
    return [module for _, module in _IMPORT.findall(report)]


def others(report: str) -> list[str]:
    """The modules of Python and of attrs, in the same order."""
    return [module for module in modules(report) if _OWNERS.get(module.split(".")[0]) != "hostrouting"]


def _runner(*words: str) -> Callable[[], object]:
    return lambda: _python(*words)


def _python(*words: str, errors: bool = False) -> str:
    # An exit code of 1 is a verdict here, too.
    # As where it is installed, modules are compiled once and not at each start.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, env=environment)
    if done.returncode > 1 or "Traceback" in done.stderr:
        raise RuntimeError(done.stderr)
    return done.stderr if errors else done.stdout
