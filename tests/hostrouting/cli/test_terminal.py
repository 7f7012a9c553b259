"""What only a terminal shows: the strip of a CIDR has the colour of the verdict on each address in
it.
"""

import io
import re
from collections.abc import Sequence

import pytest
from hypothesis import example, given, settings, strategies as st
from rich.console import Console

from hostrouting.check.check import check_snapshot
from hostrouting.check.results import CheckReport
from hostrouting.cli.output import wrapped
from hostrouting.cli.terminal import print_page
from hostrouting.command import LineToType
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.model.prefix import Prefix, width_of
from hostrouting.model.route import Route
from hostrouting.model.snapshot import Snapshot
from hostrouting.testing import h200
from tests.support.examples import scaled
from tests.support.nodes import block_of, nodes
from tests.support.sections import expect
from tests.support.tasks import CIDR
from tests.support.topologies import rule, vm_with

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


def cells_of(page: str) -> list[str]:
    """The cells of each strip of this page, without colours."""
    return re.findall("[░▒█]{10,}", re.sub(r"\x1b\[[0-9;]*m", "", page))


def test_the_page_of_a_node() -> None:
    """The strips, which begin below the verdict, and what the cells mean."""
    lines = ("OVERLAP: a sentence", "", "a rest")
    shown = page_of(h200().snapshot(), "172.16.0.0/15", "10.0.0.0/24", lines=lines)
    assert re.sub(r"\x1b\[[0-9;]*m", "", shown).splitlines() == [
        "OVERLAP: a sentence",
        f"  172.16.0.0/15      {'█' * 20}{'░' * 20}",
        f"  10.0.0.0/24        {'░' * 40}",
        LEGEND,
        "",
        "a rest",
    ]


def test_a_page_of_one_block_ends_with_the_strips() -> None:
    """The verdict stays the first line."""
    shown = page_of(h200().snapshot(), "10.0.0.0/24", lines=("OK: a sentence", "  a rest"))
    *page, strip, legend = re.sub(r"\x1b\[[0-9;]*m", "", shown).splitlines()
    assert page == ["OK: a sentence", "  a rest"]
    assert strip.startswith("  10.0.0.0/24")
    assert legend == LEGEND


def test_a_strip_inside_another_where_other_packets_escape() -> None:
    """What pods meet is red in both, though the check names the range once."""
    pods = expect("10.244.0.0/16", "10.244.9.0/24", pod_cidrs=["10.244.0.0/16"])
    of_pods = rule("10.244.0.0/16", action="prohibit")
    report = check_snapshot(vm_with(rules=(of_pods,)), HostRoutingConfig(route_overlap=pods))
    assert cells_of(shown_by_a_terminal([], report)) == ["█" * 40] * 2


def test_the_hosts_own_address_inside_what_escapes() -> None:
    """It does not escape, though the range that the check names goes on over it."""
    assert cells_of(page_of(h200().snapshot(), "172.16.1.8/29")) == ["█" * 10 + "░" * 5 + "█" * 25]


def test_no_strip_where_no_device_is_expected() -> None:
    """Without a default route, no address is judged, and so none has a colour."""
    without = vm_with()._replace(routes=())
    assert "172.16.0.0/16" not in page_of(without, CIDR)


def test_the_strip_of_what_is_not_judged() -> None:
    """It is in doubt."""
    by_object = Route(Prefix.parse("10.244.0.0/17"), nexthop_id=7)
    assert cells_of(page_of(vm_with(by_object), "10.244.0.0/16")) == ["▒" * 20 + "░" * 20]


def test_one_address_that_escapes_is_seen() -> None:
    """The cell is red, however many others are in it."""
    snapshot = h200().snapshot()
    snapshot = snapshot._replace(routes=(*snapshot.routes, Route.to("10.244.9.9/32", dev="ib0")))
    assert cells_of(page_of(snapshot, "10.244.0.0/16")) == ["░█" + "░" * 38]


def test_strips_that_are_not_shown_are_counted() -> None:
    """Twenty are shown; a line says how many more there are."""
    for count, last in ((20, "  10.19.0.0/16"), (22, "  ... and 2 more CIDRs")):
        page = page_of(h200().snapshot(), *(f"10.{number}.0.0/16" for number in range(count)))
        *lines, legend = re.sub(r"\x1b\[[0-9;]*m", "", page).splitlines()
        assert legend == LEGEND
        assert lines[-1].startswith(last)
        assert len(lines) == min(count, 21)


@pytest.mark.parametrize(("width", "cells"), [(20, 10), (50, 29), (80, 40)])
def test_a_strip_is_as_wide_as_the_terminal(width: int, cells: int) -> None:
    """With ten cells at least."""
    shown = page_of(h200().snapshot(), "172.16.0.0/12", width=width)
    assert [len(strip) for strip in cells_of(shown)] == [cells]


@pytest.mark.parametrize(
    ("line", "colours"),
    [
        ("DONE: a sentence", ["1;32"]),
        ("DIFFERS: a sentence", ["1;31"]),
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


@given(
    words=st.lists(st.text("ab-/", min_size=1, max_size=30), max_size=12),
    indent=st.integers(0, 4),
    command=st.sampled_from(["", "ip route del 10.0.0.0/8 dev eth0", "hostrouting status"]),
    width=st.sampled_from([1, 20, 50, 120]),
)
@example(words=["ab"], indent=0, command="hostrouting status", width=20)
def test_a_line_is_as_wide_as_the_terminal(
    words: list[str], indent: int, command: str, width: int
) -> None:
    """No word is lost or broken, and no command. Only one that is too long is."""
    text = " " * indent + " ".join(words)
    line = LineToType(f"{text} " if command else text, command)
    rows = wrapped(line, width)
    assert " ".join(rows).split() == line.split()
    assert command in rows[-1]
    for row in rows:
        assert len(row) <= width or row.strip() in {*words, command} or rows == [line]
        assert row.startswith(" " * indent)
