"""What only a terminal shows: the strip of a CIDR has the colour of the verdict on each address in
it.
"""

import io
import re
from collections.abc import Sequence

import pytest
from hypothesis import given, settings, strategies as st
from rich.console import Console

from hostrouting.check.check import check_snapshot
from hostrouting.check.results import CheckReport
from hostrouting.cli.output import wrapped
from hostrouting.cli.terminal import print_page
from hostrouting.command import LineToType
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.model.prefix import Prefix, as_ip, width_of
from hostrouting.model.route import TABLE_LOCAL, NextHop, Route
from hostrouting.model.rule import Rule
from hostrouting.model.snapshot import Snapshot
from hostrouting.testing import h200
from tests.support.examples import scaled
from tests.support.nodes import block_of, nodes
from tests.support.sections import expect
from tests.support.tasks import CIDR
from tests.support.topologies import IB0, refusing, rule, vm_with

RED = "31"
LEGEND = "  ░ as expected  ▒ in doubt  █ escapes"


def config_of(*cidrs: str) -> HostRoutingConfig:
    """A check of these CIDRs."""
    return HostRoutingConfig(route_overlap=expect(*cidrs))


def page_of(snapshot: Snapshot, *cidrs: str, lines: tuple[str, ...] = (), width: int = 120) -> str:
    """What a terminal shows for a check of these CIDRs."""
    return shown_by_a_terminal(lines, check_snapshot(snapshot, config_of(*cidrs)), width)


def shown_by_a_terminal(lines: Sequence[str], report: CheckReport | None, width: int = 120) -> str:
    """What a terminal of this width shows of this page."""
    shown = io.StringIO()
    console = Console(
        file=shown,
        force_terminal=True,
        color_system="standard",
        soft_wrap=True,
        _environ={},
    )
    print_page(lines, report, width, console)
    return shown.getvalue()


@settings(max_examples=scaled(40))
@given(nodes())
def test_a_cell_is_red_exactly_where_an_address_escapes(node: tuple[int, Snapshot]) -> None:
    """The oracle is the verdict on each address alone. Without colours, the cell is full."""
    family, snapshot = node
    block = block_of(family)
    escapes = [escapes_alone(snapshot, family, at) for at in range(block.first, block.last + 1)]

    # The last line says what the cells mean.
    shown = "\n".join(page_of(snapshot, str(block)).splitlines()[:-1])

    red: list[bool] = []
    for code, cells in re.findall(r"\x1b\[(3[123])m([░▒█]+)", shown):
        red += [code == RED] * len(cells)
    full = [cell == "█" for cell in re.sub(r"[^░▒█]", "", shown)]
    assert red == full
    assert red == [any(of_cell) for of_cell in in_cells(escapes, len(red))]
    if any(escapes):
        assert red, "there is a strip"


def escapes_alone(snapshot: Snapshot, family: int, address: int) -> bool:
    """Whether the check of this one address finds an overlap."""
    alone = config_of(str(Prefix(family, address, width_of(family))))
    return check_snapshot(snapshot, alone).verdict == "overlap"


def in_cells(addresses: list[bool], number: int) -> list[list[bool]]:
    """The addresses that each of so many cells stands for; one at a border is in both."""
    cells: list[list[bool]] = []
    for cell in range(number):
        first = cell * len(addresses) // number
        end = -(-(cell + 1) * len(addresses) // number)
        cells.append(addresses[first:end])
    return cells


def test_the_strip_of_a_node() -> None:
    """The devices with their shares, the worst first,
    and without those that have next to nothing.
    """
    lines = ("OVERLAP: a sentence", "", "a rest")
    shown = page_of(h200().snapshot(), "172.16.0.0/15", "10.0.0.0/24", lines=lines)
    assert re.sub(r"\x1b\[[0-9;]*m", "", shown).splitlines() == [
        "OVERLAP: a sentence",
        f"  172.16.0.0/15      {'█' * 20}{'░' * 20}  ib0 50%  eth0 50%",
        f"  10.0.0.0/24        {'░' * 40}  eth0 100%",
        LEGEND,
        "",
        "a rest",
    ]
    assert re.findall(r"\x1b\[31m([^\x1b█]+%)", shown) == ["  ib0 50%"]


def test_the_strip_of_one_address() -> None:
    """It has the colour of that address."""
    shown = page_of(h200().snapshot(), "172.16.9.9/32")
    assert re.findall(r"  (\w+ \d+%)", shown) == ["ib0 100%"]


def test_a_strip_inside_another() -> None:
    """Each CIDR has its own, also if another one has its addresses, too."""
    shown = page_of(h200().snapshot(), CIDR, "172.16.9.0/24")
    assert re.findall(r"  (\w+ \d+%)", shown) == ["ib0 100%"] * 2


def test_the_hosts_own_address_inside_what_escapes() -> None:
    """It does not escape, though the range that the check names goes on over it."""
    shown = page_of(h200().snapshot(), "172.16.1.8/29")
    assert re.findall(r"  (\w+ \d+%)", shown) == ["ib0 88%", "ib0 12%"]


@pytest.mark.parametrize(
    ("prefix", "fine"), [("10.9.0.0/17", "eth0 50%"), ("10.9.64.0/18", "eth0 75%")]
)
def test_a_share_has_each_address_once(prefix: str, fine: str) -> None:
    """The host's own packets and those of pods escape by one device, each in a range of its own."""
    pods = expect("10.9.0.0/16", pod_cidrs=["10.244.0.0/16"])
    of_host = Route.to(prefix, dev="ib0")
    of_pods = Route.to("10.9.0.0/16", dev="ib0", table=100)
    host = vm_with(of_host, of_pods, rules=(rule("10.244.0.0/16", table=100),), links=(IB0,))
    report = check_snapshot(host, HostRoutingConfig(route_overlap=pods))
    shown = shown_by_a_terminal([], report)
    assert re.findall(r"  (\w+ \d+%)", shown) == ["ib0 100%", fine]


def test_a_strip_inside_another_where_other_packets_escape() -> None:
    """What pods meet is red in both, though the check names the range once."""
    pods = expect("10.244.0.0/16", "10.244.9.0/24", pod_cidrs=["10.244.0.0/16"])
    of_pods = rule("10.244.0.0/16", action="prohibit")
    report = check_snapshot(vm_with(rules=(of_pods,)), HostRoutingConfig(route_overlap=pods))
    shown = shown_by_a_terminal([], report)
    assert re.findall(r"  (\w+ \d+%)", shown) == ["prohibit 100%", "eth0 100%"] * 2


def test_the_strip_of_several_next_hops() -> None:
    """The share is that of the device by which packets escape."""
    equal = Route.to(CIDR, protocol=4)._replace(
        next_hops=(NextHop("eth0", as_ip("10.0.0.1")), NextHop("ib0"))
    )
    shown = page_of(vm_with(equal, links=(IB0,)), CIDR)
    assert re.findall(r"  (\w+ \d+%)", shown) == ["ib0 100%"]


def test_no_strip_where_no_device_is_expected() -> None:
    """Without a default route, no address is judged, and so none has a colour."""
    without = vm_with()._replace(routes=())
    assert "172.16.0.0/16" not in page_of(without, CIDR)


def test_the_strip_of_what_leaves_by_no_device() -> None:
    """A share has the name of what becomes of the packets, the host's own or those of pods."""
    shown = page_of(refusing().snapshot(), "172.16.0.0/22")
    assert re.findall(r"  (\w+ \d+%)", shown) == ["ib0 75%", "prohibit 25%"]

    pods = expect(CIDR, "10.9.0.0/16", pod_cidrs=["10.244.0.0/16"])
    of_pods = rule("10.244.0.0/16", action="prohibit")
    report = check_snapshot(vm_with(rules=(of_pods,)), HostRoutingConfig(route_overlap=pods))
    shown = shown_by_a_terminal([], report)
    assert re.findall(r"  (\w+ \d+%)", shown) == ["prohibit 100%", "eth0 100%"] * 2


def test_the_strip_of_what_stays_on_the_host() -> None:
    """It has the word of the report, and not the device of the route, which is not the point."""
    any_ip = Route.to("10.244.0.0/17", dev="lo", type="local")._replace(table=TABLE_LOCAL)
    shown = re.sub(r"\x1b\[[0-9;]*m", "", page_of(vm_with(any_ip), "10.244.0.0/16"))
    assert f"{'█' * 20}{'░' * 20}  own-range 50%  eth0 50%" in shown


def test_the_strip_of_what_is_not_judged() -> None:
    """Where packets go cannot be told from the devices of such a route, if it has any."""
    by_object = Route(Prefix.parse("10.244.0.0/17"), nexthop_id=7)
    by_segments = Route.to("10.244.0.0/17", dev="eth0", gateway="10.0.0.1")
    by_segments = by_segments._replace(unread=("encap seg6",))
    for route in (by_object, by_segments):
        shown = re.sub(r"\x1b\[[0-9;]*m", "", page_of(vm_with(route), "10.244.0.0/16"))
        assert f"{'▒' * 20}{'░' * 20}  not-judged 50%  eth0 50%" in shown


@pytest.mark.parametrize(
    ("line", "colours"),
    [
        ("DONE: a sentence", ["1;32"]),
        ("IN FORCE: a sentence", ["1;32"]),
        ("OVERLAP: a sentence", ["1;31"]),
        ("DIFFERS: a sentence", ["1;31"]),
        ("WAITING: a sentence", ["1;33"]),
        ("REPAIR-COST: a sentence", ["1;33"]),
        ("  + 10.9.0.0/16 dev eth0", ["32"]),
        ("  removed /etc/a", ["31"]),
        ("Until the next boot, as root:", ["1"]),
        ("  route  10.9.0.0/16 dev eth0", []),
    ],
)
def test_the_colour_of_a_line(line: str, colours: list[str]) -> None:
    """Green is right, red is wrong, yellow is to be read, and a headline is bold."""
    assert re.findall(r"\x1b\[([1-9;]+)m", shown_by_a_terminal([line], None)) == colours


def test_what_only_connections_meet_is_red() -> None:
    """A rule for the node's own address: the strip is as the verdict, and not as a ping."""
    snapshot = h200().snapshot()
    rule = Rule(4, 100, src=Prefix.parse("10.0.0.4/32"), table=100)
    route = Route.to("10.244.0.0/17", dev="ib0")._replace(table=100)
    snapshot = snapshot._replace(
        rules=(snapshot.rules[0], rule, *snapshot.rules[1:]), routes=(*snapshot.routes, route)
    )
    shown = re.sub(r"\x1b\[[0-9;]*m", "", page_of(snapshot, "10.244.0.0/16"))
    assert f"{'█' * 20}{'░' * 20}  ib0 50%  eth0 50%  eth0 50%" in shown


def test_the_shares_of_one_grade_are_in_order() -> None:
    """The largest first, and equal ones by name."""
    snapshot = h200().snapshot()
    routes = [Route.to(f"10.244.{number}.0/26", dev=f"ib{number}") for number in range(3)]
    routes.append(Route.to("10.244.3.0/24", dev="ib3"))
    snapshot = snapshot._replace(routes=(*snapshot.routes, *routes))
    shown = re.sub(r"\x1b\[[0-9;]*m", "", page_of(snapshot, "10.244.0.0/22"))
    assert "  ib3 25%  ib0 6%  ib1 6%  ib2 6%  eth0 56%" in shown


def test_one_address_that_escapes_is_seen() -> None:
    """Its share is next to nothing, and the cell is red all the same."""
    snapshot = h200().snapshot()
    snapshot = snapshot._replace(routes=(*snapshot.routes, Route.to("10.244.9.9/32", dev="ib0")))
    shown = re.sub(r"\x1b\[[0-9;]*m", "", page_of(snapshot, "10.244.0.0/16"))
    assert f"█{'░' * 38}  ib0 <1%  eth0 100%" in shown


def test_a_device_whose_name_could_control_a_terminal() -> None:
    """It is escaped, as in the lines of the page."""
    escapes = Route.to("10.244.0.0/16", dev="a\x1b[2J")
    shown = page_of(vm_with(escapes), "10.244.0.0/16")
    assert "  a\\x1b[2J 100%" in shown


def test_a_page_of_one_block_ends_with_the_strips() -> None:
    """The verdict stays the first line."""
    shown = page_of(h200().snapshot(), "10.0.0.0/24", lines=("OK: a sentence", "  a rest"))
    *page, strip, legend = re.sub(r"\x1b\[[0-9;]*m", "", shown).splitlines()
    assert page == ["OK: a sentence", "  a rest"]
    assert strip.startswith("  10.0.0.0/24")
    assert legend == LEGEND


def test_strips_that_are_not_shown_are_counted() -> None:
    """Twenty are shown; a line says how many more there are."""
    for count, last in ((20, "  10.19.0.0/16"), (22, "  … and 2 more CIDRs")):
        page = page_of(h200().snapshot(), *(f"10.{number}.0.0/16" for number in range(count)))
        *lines, legend = re.sub(r"\x1b\[[0-9;]*m", "", page).splitlines()
        assert legend == LEGEND
        assert lines[-1].startswith(last)
        assert lines[19].startswith("  10.19.0.0/16")
        assert len(lines) == min(count, 21)


@pytest.mark.parametrize("width", [50, 80, 120])
def test_a_strip_is_as_wide_as_the_terminal(width: int) -> None:
    """Shares for which there is no room stand below it."""
    shares = page_of(h200().snapshot(), "172.16.0.0/12", width=width)
    lines = re.sub(r"\x1b\[[0-9;]*m", "", shares).splitlines()
    assert max(map(len, lines)) <= width
    assert len(lines) == (3 if width == 50 else 2)
    assert lines[-1] == LEGEND
    assert re.findall(r"  (\w+ \d+%)", shares) == ["ib0 6%", "eth0 94%"]


@given(
    words=st.lists(st.text("ab-/", min_size=1, max_size=30), max_size=12),
    indent=st.integers(0, 4),
    command=st.sampled_from(["", "ip route del 10.0.0.0/8 dev eth0", "hostrouting status"]),
    width=st.sampled_from([1, 20, 50, 120]),
)
def test_a_line_is_as_wide_as_the_terminal(
    words: list[str], indent: int, command: str, width: int
) -> None:
    """No word is lost or broken, and no command. Only one that is too long is."""
    text = " " * indent + " ".join(words)
    line = LineToType(f"{text} ", command) if command else text
    rows = wrapped(line, width)
    assert " ".join(rows).split() == line.split()
    assert command in rows[-1]
    for row in rows:
        assert len(row) <= width or row.strip() in {*words, command} or rows == [line]
        assert row.startswith(" " * indent)
