"""`check` and `repair` on a host that has our boot files: what is installed is asked, and none of it is lost."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from hostrouting import HostRoutingConfig
from hostrouting.testing import FakeHost, h200
from tests.support.cli import Said, say

CIDR, OTHER = "172.16.0.0/16", "10.99.0.0/16"
APART = {"destination": "10.98.0.0/16"}


def pasted(said: Said) -> HostRoutingConfig:
    """The configuration that is printed."""
    at = said.lines.index('  {"staticRoutes": {"enabled": true, "routes": [')
    return HostRoutingConfig.from_mapping(json.JSONDecoder().raw_decode("\n".join(said.lines[at:]).strip())[0])


def installed(config: str) -> FakeHost:
    """An H200 node on which this configuration was applied, with any verdict."""
    host = FakeHost(kernel=h200())
    say("apply", "--config", config, host=host)
    return host


def test_what_is_installed_is_checked(written: Callable[..., str]) -> None:
    """Without CIDRs and a configuration, the installed check is made."""
    config = written()
    host = installed(config)
    said = say("check", host=host)
    assert (said.code, said.lines[0]) == (1, "OVERLAP: all of 172.16.0.0/16 leaves by ib0; expected: eth0")
    told = say("check", "--json", host=host)
    assert told.json == say("check", "--config", config, "--json", host=host).json
    assert told.json["mode"] == "STRICT"


def test_status_leads_to_it(written: Callable[..., str]) -> None:
    """The commands that status proposes work as they are printed."""
    host = installed(written())
    [first, *_] = say("check", host=host).lines
    assert say("status", host=host).lines[0] == first
    [line] = [text for text in say("status", host=host).lines if "hostrouting repair" in text]
    ways = [part.partition("hostrouting ")[2].split() for part in line.split(";")]
    assert [say(*words, host=host).code for words in ways] == [0, 1]


@pytest.mark.parametrize(
    ("words", "said"), [((), False), ((CIDR,), False), ((OTHER,), True), ((CIDR, "--dev", "ib0"), True)]
)
@pytest.mark.parametrize("mode", ["WARN", "STRICT"])
def test_another_check_than_the_installed_one(
    written: Callable[..., str], mode: str, words: tuple[str, ...], *, said: bool
) -> None:
    """A check that can have another answer than the installed one says so; the mode changes no answer."""
    host = installed(written(mode=mode))
    told = "This was not the check that is installed on this host; to run that: hostrouting check"
    assert (told in say("check", *words, host=host).lines) is said


def test_an_installed_check_of_services_only(tmp_path: Path) -> None:
    """An installed check of service CIDRs alone is as good: another check says so, and a repair keeps its mode."""
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"routeOverlap": {"serviceCidrs": [CIDR], "mode": "STRICT"}}))
    host = installed(str(config))
    assert "This was not the check that is installed on this host; to run that: hostrouting check" in (
        say("check", OTHER, host=host).lines
    )
    assert json.loads(say("repair", OTHER, "--as-config", host=host).out)["routeOverlap"]["mode"] == "STRICT"
