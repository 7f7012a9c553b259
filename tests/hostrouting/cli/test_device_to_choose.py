"""A VPN has a better default route, or a family has none: nobody but the operator knows which
device is intended, so each candidate has what is known of it and its command, which works.
"""

import json
import re
from pathlib import Path

import pytest

from hostrouting.model.route import Route
from hostrouting.testing import FakeHost, h200, plain_vm
from tests.support.cli import say
from tests.support.incidents import (
    GUARDED,
    apply_installed,
    config,
    edit_config,
    node,
    plan,
    plan_installed,
    start_vpn,
    type_pipeline,
)
from tests.support.tasks import CIDR, LAYOUT, REPAIR, lose_routes, type_routes


def beside_a_vpn(*, lost: bool) -> FakeHost:
    """A node whose routes are there, or `lost`, as after a boot at which the VPN came first."""
    host = node(config(*REPAIR))
    start_vpn(host)
    if lost:
        lose_routes(host)
    return host


@pytest.mark.parametrize("lost", [False, True])
def test_beside_a_vpn_each_candidate_has_its_command(*, lost: bool) -> None:
    """The page has the line to paste, which works."""
    host = beside_a_vpn(lost=lost)
    status = say("status", host=host)
    [line] = {line.partition(": ")[2] for line in status.lines if "--dev eth0 |" in line}
    assert line == f"hostrouting repair {CIDR} --dev eth0 | hostrouting apply --config -"
    assert "--dev tun0 |" in status.out
    assert type_pipeline(host, line).code == 0
    assert say("status", host=host).code == 0


def test_two_ranges_in_the_same_doubt_have_the_candidates_once() -> None:
    """One range leaves by the VPN, and the other does not, so there are two sentences. The lines to
    choose from are long, and stand below them.
    """
    page = say("check", CIDR, "10.96.0.0/12", host=beside_a_vpn(lost=False))
    assert page.lines[0].endswith("; and 1 more")
    assert page.out.count("\nDEFAULT-ROUTES: it is unclear whether packets to ") == 2
    for dev in ("eth0", "tun0"):
        assert page.out.count(f"--dev {dev} |") == 1


def node_with_another_router() -> FakeHost:
    """A node without routes of its own, on which a second card has got a better default route."""
    host = node(config(), plain_vm)
    add_router(host, "eth1", 9)
    return host


def add_router(host: FakeHost, dev: str, metric: int) -> None:
    """A card gets a default route with this metric."""
    host.kernel.add_link(dev)
    host.kernel.add_address(dev, f"10.{metric}.0.4/24")
    gateway = f"10.{metric}.0.1"
    default = Route.to("0.0.0.0/0", dev=dev, gateway=gateway, protocol=16, metric=metric)
    host.kernel.ip_route("add", default)


def test_a_card_that_another_one_precedes_has_its_command() -> None:
    """A router has begun to answer on the wrong card. What leaves by it is what Linux prefers, so
    the verdict is OK; the page has the line for the other card, which works.
    """
    host = node_with_another_router()
    command = f"hostrouting repair {CIDR} --dev eth0 | hostrouting apply --config -"
    for word in ("status", "check"):
        page = say(word, host=host).out
        assert f"if eth0 is intended (address 10.0.0.4), as root: {command}\n" in page
    assert type_pipeline(host, command).code == 0
    through_eth0 = f"OK: every address of {CIDR} leaves through eth0, or is this host's own"
    assert say("status", host=host).lines[-1] == through_eth0


def test_several_cards_that_another_one_precedes(tmp_path: Path) -> None:
    """Each has a line of its own."""
    host = node_with_another_router()
    add_router(host, "eth2", 11)
    file = tmp_path / "new.json"
    file.write_text(json.dumps(config()))
    for options in ([], ["--config", str(file)]):
        page = say("check", *options, host=host).out
        typed = " ".join(options) or CIDR
        for dev in ("eth0", "eth2"):
            line = f"hostrouting repair {typed} --dev {dev} | hostrouting apply --config -"
            assert f"), as root: {line}\n" in page


def test_what_the_page_says_is_not_logged_before() -> None:
    """The page has that routes stay, so standard error has not."""
    applied = apply_installed(beside_a_vpn(lost=False))
    assert "\nROUTE-STAYS: " in applied.out
    assert applied.err == ""


def test_each_candidate_says_what_is_known_of_it() -> None:
    """The operator reads that before typing the line."""
    lines = say("status", host=beside_a_vpn(lost=True)).lines
    assert [line.partition(", as root")[0] for line in lines if line.startswith("  if ")] == [
        "  if eth0 is intended (address 10.0.0.4)",
        "  if tun0 is intended (kind tun, address 10.8.0.6)",
    ]


@pytest.mark.parametrize("lost", [False, True])
@pytest.mark.parametrize("command", ["check", "repair"])
def test_a_file_that_is_given_is_in_the_line_of_each_candidate(
    command: str, tmp_path: Path, *, lost: bool
) -> None:
    """Without the file, the line would repair the installed configuration, or none."""
    file = tmp_path / "new.json"
    file.write_text(json.dumps(config(*REPAIR, guard=GUARDED)))
    host = FakeHost(kernel=h200())
    if not lost:
        type_routes(host, *REPAIR)
    start_vpn(host)

    said = say(command, "--config", str(file), host=host)
    for_eth0 = re.compile("hostrouting repair [^;\n]* --dev eth0 [|][^;\n]*")
    [line] = set(for_eth0.findall(said.out + said.err))
    assert line == f"hostrouting repair --config {file} --dev eth0 | hostrouting apply --config -"
    assert line.replace("eth0", "tun0") in said.out + said.err
    assert "NAME" not in said.out + said.err
    assert type_pipeline(host, line).code == 0
    status = say("status", host=host)
    assert status.code == 0
    assert f"  {LAYOUT.guard_unit} runs" in status.lines


def test_apply_says_which_device_it_needs() -> None:
    """Where routes wait for a choice, `apply` has the lines of `status`, and does not contradict
    itself.
    """
    host = beside_a_vpn(lost=True)
    needs = f"2 routes, such as {REPAIR[0]}, need a device to be named: [default via 10.8.0.1"
    planned = plan_installed(host)
    assert planned.lines[0].startswith(f"NOT READY: apply would wait, and then fail: {needs}")
    status = say("status", host=host)
    assert status.lines[0].startswith(f"WAITING: {needs}")

    failed = apply_installed(host)
    assert failed.code == 3
    assert "Nothing was changed." in failed.lines
    assert "the files are installed" not in failed.out
    candidates = [line for line in failed.lines if " --dev " in line]
    assert candidates == [line for line in status.lines if " --dev " in line]
    assert len(candidates) == 2
    assert type_pipeline(host, candidates[0].partition("as root: ")[2]).code == 0


def test_waiting_is_in_vain_if_one_of_the_routes_needs_a_name() -> None:
    """What another one lacks may come meanwhile."""
    settings = config(*REPAIR)
    settings["staticRoutes"]["routes"].append({"destination": "fd00::/16"})
    said = plan(beside_a_vpn(lost=True), json.dumps(settings))
    assert "fd00::/16 needs an IPv6 default route" in said.out
    assert said.lines[0].startswith("NOT READY: apply would wait, and then fail: 2 routes")


def test_an_address_that_nobody_expects_to_leave_by_the_uplink_is_not_judged() -> None:
    """With a VPN, every address of the Internet would be called an overlap."""
    host = node(config(*REPAIR))
    edit_config(host, lambda settings: settings["routeOverlap"].update(expectedDevs=["eth0"]))
    apply_installed(host)
    start_vpn(host)
    way = "8.8.8.8 leaves through tun0 via 10.8.0.1"
    first = say("explain", "8.8.8.8", host=host).lines[0]
    assert first == f"{way}; no expected CIDR has this address, so check does not judge it"
    assert say("explain", "172.16.5.9", host=host).lines[0].startswith("OK: 172.16.5.9 leaves")


# One family is asked for, and another one has no default route.

NO_IPV6 = "hostrouting: NO-DEFAULT-ROUTE: there is no IPv6 default route"


def test_a_repair_of_one_family_does_not_say_that_the_other_is_right() -> None:
    """What is right once the configuration is applied may escape now."""
    host = node(config(*REPAIR))
    lose_routes(host)
    refused = say("repair", "fd00::/64", host=host)
    assert refused.code == 3
    assert refused.err.startswith(NO_IPV6)


@pytest.mark.parametrize("options", [(), ("--commands",)])
def test_a_repair_of_one_family_says_what_the_other_lacks(options: tuple[str, ...]) -> None:
    """What is printed repairs only a part then, and the exit code says so."""
    said = say("repair", CIDR, "fd00::/64", *options, kernel=h200())
    assert said.code == 1
    assert REPAIR[1] in said.out
    assert f"{NO_IPV6}, so no device is expected" in said.err.splitlines()
