"""`check` and `repair` on a host that has our boot files: what is installed is asked, and none of it is lost."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from hostrouting import HostRoutingConfig
from hostrouting.model.route import Route
from hostrouting.testing import FakeHost, h200
from tests.hostrouting.cli.conftest import HALVES
from tests.support.cli import Said, say
from tests.support.tasks import lose_routes

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
    assert (said.code, said.lines[0]) == (1, "OVERLAP: 172.16.0.0/16 leaves by ib0, not by eth0")
    told = say("check", "--json", host=host)
    assert told.json == say("check", "--config", config, "--json", host=host).json
    assert told.json["mode"] == "STRICT"


def test_a_snapshot_is_another_host(written: Callable[..., str], tmp_path: Path) -> None:
    """For a saved snapshot, it is not known what is installed; this host's own files do not matter."""
    host = installed(written())
    path = tmp_path / "node.json"
    path.write_text(say("snapshot", host=host).out)
    assert say("check", "--snapshot", str(path), host=host).code == 2
    assert '"mode": "WARN"' in say("repair", CIDR, "--snapshot", str(path), host=host).out


@pytest.mark.parametrize("command", ["check", "repair"])
@pytest.mark.parametrize("cidrs", [(), (OTHER,), (CIDR,)])
def test_nothing_installed_is_lost(
    written: Callable[..., str], tmp_path: Path, command: str, cidrs: tuple[str, ...]
) -> None:
    """The configuration that is printed has the installed routes as they were written, the check and its mode."""
    host = installed(written(HALVES[0], APART))
    host.kernel.ip_route("add", Route.to(OTHER, dev="ib3"))
    said = say(command, *cidrs, host=host)
    config = pasted(said)
    assert config.route_overlap.mode == "STRICT"
    assert [str(cidr) for cidr in config.route_overlap.expected_cidrs] == list(dict.fromkeys([CIDR, *cidrs]))
    first, second, *repair = config.static_routes.routes
    assert [str(it.destination) for it in (first, second)] == ["172.16.0.0/17", "10.98.0.0/16"]
    assert {(it.gateway, it.dev) for it in repair} == {(None, None)}
    assert "It includes what is installed here: 2 static routes; the check of 172.16.0.0/16 in STRICT." in said.lines
    path = tmp_path / "pasted.json"
    path.write_text(config.to_json())
    say("apply", "--config", str(path), host=host)
    assert say("check", *(cidrs or (CIDR,)), host=host).code == 0


def test_devices_that_are_named_beside_it(written: Callable[..., str]) -> None:
    """Named devices replace those of the installed check, also in the printed configuration."""
    host = installed(written(cidrs=(OTHER,)))
    said = say("check", CIDR, "--dev", "eth0", host=host)
    assert pasted(said).route_overlap.expected_devs == ("eth0",)


def test_installed_routes_that_are_lost(repaired: str) -> None:
    """If the installed routes are missing and would repair the escape, the remedy is to start them."""
    host = installed(repaired)
    lose_routes(host)
    for words in ((), (CIDR,)):
        said = say("check", *words, host=host)
        assert said.code == 1
        told = "The installed configuration has the routes that repair it; add them, as root, with: systemctl start static-routes.service"
        assert told in said.lines
        assert "Permanently" not in said.out


@pytest.mark.parametrize("more", [(), ({"destination": "172.16.0.0/18"}, {"destination": "172.16.64.0/18"})])
@pytest.mark.parametrize("cidrs", [(), (CIDR,)])
def test_an_installed_route_is_somebody_elses_now(
    written: Callable[..., str], tmp_path: Path, cidrs: tuple[str, ...], more: tuple[dict[str, object], ...]
) -> None:
    """The printed configuration omits the route that is no longer possible, says so, and can be applied."""
    host = installed(written(*HALVES, *more))
    lose_routes(host)
    host.kernel.ip_route("add", Route.to("172.16.0.0/17", dev="ib0", protocol=4))
    said = say("check", *cidrs, host=host)
    path = tmp_path / "pasted.json"
    path.write_text(pasted(said).to_json())
    assert (
        "It leaves out the entry for 172.16.0.0/17: another program's route has this destination and metric, and"
        " hostrouting leaves that route as it is." in said.lines
    )
    assert say("apply", "--config", str(path), host=host).code == 0
    assert say("check", host=host).code == 0


def test_settings_beyond_the_defaults_are_kept(tmp_path: Path) -> None:
    """Devices of what is installed are in the configuration that is printed; defaults are not spelt out."""
    path = tmp_path / "config.json"
    document = {"routeOverlap": {"expectedCidrs": [OTHER], "expectedDevs": ["eth0"], "allowedDevs": ["cali*"]}}
    path.write_text(json.dumps(document))
    host = installed(str(path))
    said = say("check", CIDR, host=host)
    config = pasted(said)
    assert (config.route_overlap.expected_devs, config.route_overlap.allowed_devs) == (("eth0",), ("cali*",))
    assert "allowedDevs" not in say("check", CIDR, kernel=h200()).out


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


def test_settings_that_a_typed_cidr_leaves_out(tmp_path: Path) -> None:
    """If the installed check allows a device, the typed one of the same CIDR does not, and the answer explains it."""
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"routeOverlap": {"expectedCidrs": [CIDR], "allowedDevs": ["...", "ib*"]}}))
    host = installed(str(path))
    for words, code, said in (((), 0, False), ((CIDR,), 1, True)):
        answer = say("check", *words, host=host)
        assert (answer.code, "This was not the check that is installed" in answer.out) == (code, said)
