"""The README's tables are true: each key, default and rule of the configuration, each file, message, error and code."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any, get_args

import pytest

from hostrouting import ConfigError, HostLayout, HostRoutingConfig, errors
from hostrouting.cli.commands import COMMANDS
from hostrouting.cli.failure import code_of
from hostrouting.cli.parser import make_parser
from hostrouting.config import DEFAULT_ALLOWED_DEVS
from hostrouting.overlap import Escape, Verdict
from hostrouting.repair import TOO_MANY

README = (Path(__file__).resolve().parent.parent / "README.md").read_text(encoding="utf-8")
RIGHT: dict[str, Any] = {
    "staticRoutes": {"enabled": True, "routes": [{"destination": "10.1.0.0/16"}]},
    "routeOverlap": {},
    "probeRewrite": {"imds": {}},
    "azureVnetCleanup": {"managed": ["10.240.0.0/16"], "what": {}},
}


def table(comment: str) -> list[list[str]]:
    """The rows of the table that follows a comment of the README, without its head; each cell without backquotes."""
    lines = README.split(f"<!-- {comment} -->\n", maxsplit=1)[1].splitlines()
    rows = lines[2 : next(at for at, line in enumerate(lines) if not line.startswith("|"))]
    return [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows]


CONFIGURATION = [[cell.strip("`") for cell in row] for row in table("configuration")]


def keys_of(document: object, path: str = "") -> dict[str, object]:
    """Every key of a JSON value by its path, with what it has there."""
    if isinstance(document, dict):
        own = {f"{path}{key}": value for key, value in document.items() if not isinstance(value, dict)}
        inner = [keys_of(value, f"{path}{key}{'[]' * isinstance(value, list)}.") for key, value in document.items()]
        return {key: value for found in (own, *inner) for key, value in found.items()}
    if isinstance(document, list):
        return {key: value for item in document for key, value in keys_of(item, path).items()}
    return {}


def with_value(key: str, value: object) -> dict[str, Any]:
    """A configuration that is right but for the value of this key."""
    document = copy.deepcopy(RIGHT)
    *way, last = key.replace("[]", ".0").split(".")
    place: Any = document
    for step in way:
        place = place[int(step) if step.isdigit() else step]
    place[last] = value
    return document


def test_every_key_of_the_configuration() -> None:
    """Each key has a row, with the default that it has; nothing else has one."""
    known = keys_of(HostRoutingConfig.from_mapping(RIGHT).to_mapping())
    assert {row[0] for row in CONFIGURATION} == set(known)
    defaults = keys_of(HostRoutingConfig().to_mapping()) | {
        key: value for key, value in known.items() if key.startswith(("staticRoutes.routes[].", "azureVnetCleanup."))
    }
    for key, default, *_ in CONFIGURATION:
        if key.endswith(("destination", "managed")):
            assert default == "required"
        elif key.endswith("allowedDevs"):
            assert default == "see below"
        else:
            assert json.loads(default) == defaults[key], key


@pytest.mark.parametrize("row", CONFIGURATION, ids=lambda row: row[0])
def test_what_is_refused(row: list[str]) -> None:
    """The value that a row calls refused is refused, at that key and for no other reason; its default is not."""
    key, default, _, refused = row
    with pytest.raises(ConfigError) as caught:
        HostRoutingConfig.from_mapping(with_value(key, json.loads(refused)))
    assert {fault.path.split("[0]")[0] for fault in caught.value.faults} == {key.replace("[]", "[0]").split("[0]")[0]}
    if default not in {"required", "see below"} and key != "staticRoutes.enabled":
        HostRoutingConfig.from_mapping(with_value(key, json.loads(default)))


def test_allowed_devices() -> None:
    """The devices that are allowed by default are those that the README names."""
    text = README.split("<!-- allowedDevs -->\n", maxsplit=1)[1].split("\n\n", maxsplit=1)[0]
    assert tuple(re.findall(r"`(.*?)`", text)) == DEFAULT_ALLOWED_DEVS


def test_example_of_a_configuration() -> None:
    """The configuration that the README shows is one."""
    text = README.split("```json\n", maxsplit=1)[1].split("```", maxsplit=1)[0]
    assert len(HostRoutingConfig.from_json(text).static_routes.routes) == 2


def test_every_file() -> None:
    """Each file of ours has a row, and nothing else has one."""
    layout = HostLayout()
    own = {name for name in dir(layout) if name.endswith("_path")}
    assert {row[0].strip("`") for row in table("files")} == {getattr(layout, name) for name in own}


def test_every_line_that_the_check_says() -> None:
    """Each kind of finding, and each verdict that is no finding, has its row among the messages."""
    rows = {word for row in table("messages") for word in re.findall(r"`([A-Z-]+)`", row[0])}
    kinds = {kind.upper() for kind in get_args(Escape)}
    verdicts = {verdict.upper() for verdict in get_args(Verdict)} - {"OK", "UNDECIDED"}
    assert rows == kinds | verdicts | {"ACTION", "UNSAFE"}


def test_every_error() -> None:
    """Each error of ours is in a row, or is the kernel's refusal of one route, with the exit code that it has."""
    rows = {name: row[3] for row in table("errors") for name in re.findall(r"`(\w+)`", row[0])}
    kinds = {name: getattr(errors, name) for name in errors.__all__}
    refusals = {name for name, kind in kinds.items() if issubclass(kind, errors.RouteRefused)}
    assert set(rows) == set(kinds) - refusals - {"HostRoutingError", "Fault"}
    for name, code in rows.items():
        error = kinds[name].__new__(kinds[name])
        error.errno = None  # of a file it says whether root is missing, and that is NotPermitted's row
        assert code in {str(code_of(error)), "–"}, name  # noqa: RUF001  a dash for what no command meets


def test_every_command() -> None:
    """Each command is among those that the README tells, and each line that it tells is one that is understood."""
    typed = re.findall(r"`(?:ssh node )?hostrouting ([^`>]+?)(?: >[^`]*)?`", README.split("## What is guaranteed")[0])
    assert {line.split()[0] for line in typed} == {command.name for command in COMMANDS}
    for line in typed:
        make_parser("0").parse_args(line.split())


def test_so_many_routes() -> None:
    """The size from which on a repair is not proposed is the one that the README says."""
    assert f"more than {TOO_MANY:,} routes" in README
