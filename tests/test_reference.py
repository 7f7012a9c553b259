"""The tables of the pages are true: each key, default and rule of the configuration, and each file."""

import json
import re

import pytest

from hostrouting import ConfigError, HostLayout, HostRoutingConfig
from hostrouting.check.repair import TOO_MANY
from hostrouting.cli.commands import COMMANDS
from hostrouting.config.cni import DEFAULT_ALLOWED_DEVS
from tests.support.config_keys import COMPLETE, keys_of, with_value
from tests.support.pages import ROOT, page, tables

CONFIGURATION = [[cell.strip("`") for cell in row] for row in tables(page("configuration"), "configuration")]


def test_every_key_of_the_configuration() -> None:
    """Exactly the keys have rows, each with its default."""
    known = keys_of(HostRoutingConfig.from_mapping(COMPLETE).to_mapping())
    assert {row[0] for row in CONFIGURATION} == set(known)
    defaults = keys_of(HostRoutingConfig().to_mapping()) | {
        key: value
        for key, value in known.items()
        if key.startswith(("staticRoutes.routes[].", "routeOverlap.intendedRules[].", "azureVnetCleanup."))
    }
    for key, default, *_ in CONFIGURATION:
        if key.endswith(("destination", "managed", ".rule", ".reason")):
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
    """The devices that are allowed by default are those that the page names."""
    text = page("configuration").split("<!-- allowedDevs -->\n", maxsplit=1)[1].split("\n\n", maxsplit=1)[0]
    assert tuple(re.findall(r"`(.*?)`", text)) == DEFAULT_ALLOWED_DEVS


def test_every_file() -> None:
    """Each of our files has a row, and nothing else has one."""
    layout = HostLayout()
    own = {getattr(layout, name) for name in dir(layout) if name.endswith("_path")}
    assert {row[0].strip("`") for row in tables(page("configuration"), "files")} == {*own, layout.gate_drop_in("UNIT")}


def test_every_environment_variable() -> None:
    """Each environment variable that the command reads has its row on the page for operators, and no other."""
    rows = {name for row in tables(page("operators"), "environment") for name in re.findall(r"`([A-Z_]+)`", row[0])}
    read = r'\b(?:known|environment)(?:\.get\(|\[)"([A-Z_]+)"'
    found = {name for path in (ROOT / "hostrouting").rglob("*.py") for name in re.findall(read, path.read_text())}
    locale = {"LC_ALL", "LC_CTYPE", "LANG"}
    assert rows == found | locale


def test_every_command() -> None:
    """Each command is shown on the page for operators."""
    shown = set(re.findall(r"hostrouting (\w+)", page("operators")))
    assert set(COMMANDS) <= shown


def test_so_many_routes() -> None:
    """The size from which on a repair is not proposed is the one that the page says."""
    assert f"more than {TOO_MANY:,} routes" in page("limits")
