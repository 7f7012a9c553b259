"""The house as it is drawn: which module may import which. An arrow that is not drawn here fails."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# Each room is loaded with lines above its own only; rooms on one line do not know each other. A room is a module or a
# folder; what is inside a folder has a drawing of its own.
DRAWINGS = {
    "phases": """
        text clock interrupts
        events
        report
        errors
        logs scope tasks
        context live selection
        execution preview
        groups wrappers undoing signals
        launch testing
        __init__
    """,
    "hostrouting": """
        effects errors layout opening reserved route_protocol
        config model system
        connected fib host render
        backends fileset packet_words steps uplink way_round
        foresight gate leftover overlap route_order testing
        openings plan
        apply
        repair
        examination wording
        tasks
        __init__
        cli
        __main__
    """,
    "hostrouting.backends": """
        base bounds deletion
        refusal saved
        memory netlink
        __init__
    """,
    "hostrouting.backends.memory": """
        errors faults tables text watch
        devices rules
        ipv4 ipv6
        namespace
        backend
        __init__
    """,
    "hostrouting.backends.memory.ipv4": """
        checks
        routes
        addresses
        __init__
    """,
    "hostrouting.backends.memory.ipv6": """
        checks
        routes
        addresses
        __init__
    """,
    "hostrouting.backends.netlink": """
        numbers
        messages sockets
        channel route_message
        lists nexthops route_list watching
        devices reading
        changing lookups
        backend
        __init__
    """,
    "hostrouting.cli": """
        command page schemas
        cidr_map explanation failure gates source terminal
        check
        host_status remedy
        run
        commands
        parser
        entry_point
        __init__
    """,
    "hostrouting.cli.commands": """
        apply check explain plan remove render snapshot status
        repair
        __init__
    """,
    "hostrouting.config": """
        objects
        jsontext values
        settings
        __init__
    """,
    "hostrouting.fib": """
        answer flow ordered
        supposed table
        tables walk
        branches bulk
        region
        rules
        engine
        trace
        __init__
    """,
    "hostrouting.model": """
        prefix
        link route
        pathless route_table rule
        snapshot_json
        snapshot
        __init__
    """,
    "hostrouting.render": """
        scripts
        units
        gate
        __init__
    """,
    "hostrouting.repair": """
        cover
        propose
        __init__
    """,
    "hostrouting.system": """
        files manager
        image
        __init__
    """,
    "hostrouting.tasks": """
        results
        boot
        overlap_check static_routes
        configure
        __init__
    """,
    "hostrouting.testing": """
        config_strategies contract strategies topologies units
        host plugin
        __init__
    """,
}
FLOORS = {
    folder: {room: floor for floor, line in enumerate(drawing.strip().split("\n")) for room in line.split()}
    for folder, drawing in DRAWINGS.items()
}

# Rooms that know each other all the same, by way of annotations or of imports inside functions: to be opened.
KNOWN_CIRCLES: dict[str, set[frozenset[str]]] = {}

# Third-party packages, and the only modules that may import them.
FOREIGN = {
    "attrs": {"*"},
    "rich": {"phases.live"},
    "pyroute2": {"hostrouting.backends.netlink.nexthops"},
    "pytest": {"hostrouting.testing.contract", "hostrouting.testing.plugin"},
    "hypothesis": {"hostrouting.testing.strategies", "hostrouting.testing.config_strategies"},
}
# Never loaded by an import of ours, only by a use; but a module of the test kit that is made of one loads it.
SLOW = {"rich", "pyroute2", "pytest", "hypothesis", "asyncio"}
KIT = FOREIGN["pytest"] | FOREIGN["hypothesis"]


def modules(folder: str) -> list[str]:
    """Every module below the folder, with dots; a folder's own under `__init__`."""
    return sorted(
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for path in (ROOT / folder.replace(".", "/")).rglob("*.py")
        if "__pycache__" not in path.parts
    )


ALL = [module for folder in DRAWINGS if "." not in folder for module in modules(folder)]


def imports(module: str) -> list[tuple[str, bool]]:
    """The modules that a module imports, each with whether it is loaded as soon as the module is."""
    tree = ast.parse((ROOT / (module.replace(".", "/") + ".py")).read_text(encoding="utf-8"))
    found: list[tuple[str, bool]] = []

    def visit(node: ast.AST, *, at_once: bool) -> None:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            at_once = False
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            at_once = False
        if isinstance(node, ast.Import):
            found.extend((alias.name, at_once) for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: relative import"
            home = node.module or ""
            found.extend(
                (f"{home}.{alias.name}" if f"{home}.{alias.name}" in ALL else home, at_once) for alias in node.names
            )
        for child in ast.iter_child_nodes(node):
            visit(child, at_once=at_once)

    visit(tree, at_once=True)
    return found


def rooms_on_the_way(module: str) -> list[tuple[str, str]]:
    """Each folder that the module is in, outermost first, and the room in it that leads to the module."""
    parts = module.split(".")
    if module not in ALL:
        parts.append("__init__")  # a folder's name stands for its __init__
    return [(".".join(parts[:depth]), parts[depth]) for depth in range(1, len(parts))]


def arrows(folder: str) -> dict[str, set[str]]:
    """Which rooms of a folder each of its rooms imports from, at whatever moment and for whatever reason."""
    found: dict[str, set[str]] = {room: set() for room in FLOORS[folder]}
    for module in ALL:
        here = dict(rooms_on_the_way(module)).get(folder)
        for name, _ in imports(module) if here is not None else ():
            there = dict(rooms_on_the_way(name)).get(folder)
            if here is not None and there not in {None, here}:
                found[here].add(str(there))
    return found


@pytest.mark.parametrize("folder", DRAWINGS)
def test_every_room_is_drawn(folder: str) -> None:
    """A new room has to be given its floor, and one that is gone leaves the drawing."""
    depth = folder.count(".") + 1
    assert {module.split(".")[depth] for module in modules(folder)} == set(FLOORS[folder])


def test_every_folder_has_a_drawing() -> None:
    """A folder with modules of its own has a drawing of its own."""
    assert {module.rpartition(".")[0] for module in ALL} == set(DRAWINGS)


@pytest.mark.parametrize("module", ALL)
def test_imports_point_down(module: str) -> None:
    """A module loads only what stands below it; names for annotations may come from anywhere in its package."""
    for name, at_once in imports(module):
        if not at_once or name.split(".")[0] != module.split(".", maxsplit=1)[0]:
            continue
        for (folder, here), (folder_there, there) in zip(
            rooms_on_the_way(module), rooms_on_the_way(name), strict=False
        ):
            if folder == folder_there and here != there:
                assert FLOORS[folder][there] < FLOORS[folder][here], f"{module} imports {name}, which is not below it"


@pytest.mark.parametrize("folder", DRAWINGS)
def test_no_rooms_in_a_circle(folder: str) -> None:
    """No two rooms need each other to be understood: imports for annotations and inside functions count here."""
    seen_from = arrows(folder)
    for middle, seen in seen_from.items():
        for room in seen_from:
            if middle in seen_from[room]:
                seen_from[room] |= seen
    circles = {
        frozenset(other for other in seen_from if other in seen_from[room] and room in seen_from[other])
        for room in seen_from
        if room in seen_from[room]
    }
    assert circles == KNOWN_CIRCLES.get(folder, set())


@pytest.mark.parametrize("module", modules("phases"))
def test_phases_has_never_heard_of_networks(module: str) -> None:
    """Phases imports nothing of hostrouting, not even for an annotation."""
    assert not [name for name, _ in imports(module) if name.split(".")[0] == "hostrouting"]


@pytest.mark.parametrize("module", ALL)
def test_foreign_packages_have_one_door(module: str) -> None:
    """A third-party package is imported only where the drawing says, and a slow one only when it is used."""
    for name, at_once in imports(module):
        top = name.split(".")[0]
        if top in FOREIGN:
            assert FOREIGN[top] & {"*", module}, f"{module} imports {top}"
        assert not (at_once and top in SLOW and module not in KIT), f"{module} loads {top} when it is imported"
