"""The page about many nodes: what is on it, and that nothing of a snapshot can be more than text."""

import base64
import hashlib
import re
from datetime import datetime, timezone
from pathlib import Path

import attrs
import pytest
from hypothesis import given

from hostrouting.check.examine import Correction
from hostrouting.check.segments import Segment, listed_segments
from hostrouting.errors import InputError
from hostrouting.fleet import NodeResult, group_nodes
from hostrouting.fleet.judge import judge
from hostrouting.fleet.page import Markup, element, fill, joined, maps_of, read_maps, read_page, render_page
from hostrouting.model.prefix import Prefix
from hostrouting.model.route import Route
from hostrouting.model.snapshot import Link, Snapshot
from hostrouting.testing import h200, plain_vm
from tests.support.fleets import ASKED, HALVES, escape, node, save
from tests.support.html_texts import TEXTS, Reader
from tests.support.topologies import marked_vm

NOW = datetime(2026, 11, 22, 8, 34, tzinfo=timezone.utc)
FABRIC = h200().snapshot().to_json()


@pytest.fixture
def results(tmp_path: Path) -> list[NodeResult]:
    """Nodes of several kinds, with their files."""
    nodes = {
        "gpu-1": FABRIC,
        "gpu-2": FABRIC,
        "vm": plain_vm().snapshot().to_json(),
        "marked": marked_vm().snapshot().to_json(),
    }
    save(tmp_path, nodes)
    found = [
        attrs.evolve(judge(text.encode(), ASKED), name=name, path=str(tmp_path / f"{name}.json"))
        for name, text in nodes.items()
    ]
    return [
        *found,
        NodeResult("broken", "broken.json", failure=InputError("snapshot", path="links", problem="must be a list")),
    ]


def text_of(page: str) -> str:
    """The text of the page, without its style and script."""
    body = re.sub(r"<(style|script)>.*?</\1>", "", page, flags=re.DOTALL)
    return " ".join(
        "".join(f" {it} " for it in Reader(body).found if isinstance(it, str) and not it.startswith("/")).split()
    )


def test_what_is_on_it(results: list[NodeResult]) -> None:
    """The verdicts by node, each problem with its map before and after the repair, and the repair."""
    text = text_of(read_page(group_nodes(results), ASKED, moment=NOW))
    for told in (
        "The routing of 5 nodes",
        "every address of 172.16.0.0/16 is expected to leave by the device of its default route.",
        "5 nodes: 2 overlap, 1 no verdict, 1 undecided, 1 ok",
        "2 overlap 172.16.0.0/16 by ib0 one repair for all",
        "172.16.0.0/16 on gpu-1 now 172.16.0.0 172.16.255.255 ib0 172.16.0.0–172.16.255.255: ib0, escapes",  # noqa: RUF001  the dash is meant
        "repaired eth0 172.16.0.0–172.16.255.255: eth0, expected",  # noqa: RUF001  as above
        '{"destination": "172.16.0.0/17", "gateway": "", "dev": "", "metric": 0},',
        "neighbours there, in the repaired range, become unreachable over IP",
        "1 node: links: must be a list broken",
        "gpu-1 overlap 172.16.0.0/16 by ib0 gpu-2 overlap",
        "2026-11-22 08:34 UTC",
    ):
        assert told in text


def test_what_to_change() -> None:
    """The page says what the table says: which entries to delete, and which nodes need a configuration of their own."""
    first, second = HALVES
    changes = {
        "gpu-1": Correction((first, second), replaced=(first,)),
        "gpu-2": Correction((first,), contested=(second,)),
        "gpu-3": Correction(),
    }
    nodes = [
        attrs.evolve(node(name, escape(f"ib{'x' * at}")), correction=it)
        for at, (name, it) in enumerate(changes.items())
    ]
    groups = group_nodes([*nodes, NodeResult("vm", verdict="ok")])
    asked = attrs.evolve(ASKED, is_whole=True)
    text = text_of(render_page(groups, [()] * len(groups), asked, moment=NOW))
    reason = "an entry of the shared one is wrong on it, and may be right on other nodes"
    told = f"This node needs a configuration of its own: {reason}"
    assert [text.count(f"{told}{end}.") for end in ("", "; longer prefixes in its place may serve all")] == [1, 1]
    one, other, last = (
        text.partition(f" {change} {repair} ")[2].partition("1 node: ")[0]
        for change, repair in zip(changes, ("A file of its own", "A file of its own", "A repair"), strict=True)
    )
    assert text.count("by ib a file of its own") == 1  # the table
    assert "In the configuration, delete the present entry for 172.16.0.0/17: the new one takes its place." in one
    assert one.startswith("This node needs ")
    assert other.startswith("This node needs ")
    assert "In the configuration, delete the entry for 172.16.128.0/17: another program's route has this" in other
    assert last.startswith("The configuration has its routes: apply it on each node.")


def test_it_needs_nothing_else(results: list[NodeResult]) -> None:
    """The page loads nothing, links to nothing outside, and allows only the script that it has."""
    page = read_page(group_nodes(results), ASKED, moment=NOW)
    tags = [it for it in Reader(page).found if isinstance(it, tuple)]
    assert not {tag for tag, _ in tags} & {"link", "img", "iframe", "object", "base"}
    assert not [attributes for _, attributes in tags if attributes.keys() & {"src", "srcset", "action", "background"}]
    assert all(attributes["href"].startswith("#") for _, attributes in tags if "href" in attributes)
    assert "url(" not in page
    [policy] = [
        it["content"] for tag, it in tags if tag == "meta" and it.get("http-equiv") == "Content-Security-Policy"
    ]
    script = page.split("<script>")[1].split("</script>")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert policy.startswith("default-src 'none';")
    assert f"script-src 'sha256-{digest}';" in policy


def test_every_link_leads_somewhere(results: list[NodeResult]) -> None:
    """Each place that is linked to is on the page, once."""
    tags = [it for it in Reader(read_page(group_nodes(results), ASKED, moment=NOW)).found if isinstance(it, tuple)]
    ids = [attributes["id"] for _, attributes in tags if "id" in attributes]
    assert len(set(ids)) == len(ids)
    named = {it[key] for _, it in tags for key in ("aria-labelledby", "for") if key in it}
    linked = {it["href"][1:] for _, it in tags if "href" in it} | {word for names in named for word in names.split()}
    assert linked <= set(ids)
    assert {f"problem-{number}" for number in (1, 2, 3)} <= linked


@given(name=TEXTS.filter(bool), dev=TEXTS.filter(bool), problem=TEXTS)
def test_no_value_becomes_markup(name: str, dev: str, problem: str) -> None:
    """Whatever nodes and devices are called, and whatever an error says, the page has the elements that it always has."""

    def page(name: str, dev: str, problem: str) -> str:
        host = Snapshot(
            links=(Link(name="eth0", index=2), Link(name=dev, index=3)),
            rules=plain_vm().snapshot().rules,
            routes=(Route.to("0.0.0.0/0", dev="eth0", gateway="10.0.0.1"), Route.to("172.16.0.0/17", dev=dev)),
        )
        data = host.to_json().encode()
        result = attrs.evolve(judge(data, ASKED), name=name)
        broken = NodeResult(f"x{name}", failure=InputError("snapshot", path=problem, problem=f"x{problem}"))
        maps = [tuple(maps_of(data, ASKED)), ()]
        return render_page(group_nodes([result, broken]), maps, ASKED, moment=NOW)

    mild = [it.replace("/", "-") or "x" for it in ("n", "d", "p")]
    dev = "".join(it for it in dev if not "\ud800" <= it <= "\udfff")[:40] or "d"
    if dev != "eth0":
        assert without_data(page(name, dev, problem)) == without_data(page(*mild))


def without_data(page: str) -> list[object]:
    """The tags of the page with the names of their attributes."""
    return [(it[0], tuple(it[1])) for it in Reader(page).found if isinstance(it, tuple)]


def test_thousands_of_nodes_and_problems() -> None:
    """Every node has its row; only the first hundred problems have a section."""
    results = [
        NodeResult(f"node-{number}", failure=InputError("snapshot", path=f"routes[{number % 150}]", problem="no"))
        for number in range(3000)
    ]
    groups = group_nodes(results)
    page = render_page(groups, [()] * 100, ASKED, moment=NOW)
    assert page.count('<th scope="row">node-') == 3000
    assert page.count("<h2 id=") == 2 + 100


class TestMaps:
    """The maps of a group."""

    def test_a_file_that_has_changed(self, results: list[NodeResult], tmp_path: Path) -> None:
        """A node whose file is gone or has changed has no map; an ok node needs none."""
        gpu, _, vm, *_ = results
        assert [it.cidr for it in read_maps(gpu, ASKED)] == [Prefix.parse("172.16.0.0/16")]
        assert read_maps(vm, ASKED) == ()
        (tmp_path / "gpu-1.json").write_text(marked_vm().snapshot().to_json())
        assert read_maps(gpu, ASKED) == ()
        (tmp_path / "gpu-1.json").unlink()
        assert read_maps(gpu, ASKED) == ()

    def test_a_single_address_that_escapes(self) -> None:
        """An address that escapes alone is listed. Kills: any single address joins the range beside it."""
        rows = [Segment(0, 4, "eth0", "expected"), Segment(5, 5, "ib0", "escape"), Segment(6, 9, "eth0", "expected")]
        assert listed_segments(rows) == tuple(rows)

    def test_an_own_address_among_others(self) -> None:
        """An own address does not divide the range around it."""
        rows = [Segment(0, 4, "ib0", "escape"), Segment(5, 5, "own", "own"), Segment(6, 9, "ib0", "escape")]
        assert listed_segments(rows) == (Segment(0, 9, "ib0", "escape"),)
        assert listed_segments(rows[1:]) == (Segment(5, 9, "ib0", "escape"),)
        assert listed_segments(rows[1:2]) == (rows[1],)
        assert listed_segments([rows[0], Segment(5, 6, "own", "own")]) == (rows[0], Segment(5, 6, "own", "own"))


# Elements of HTML: whatever is put into one is text


def test_an_element() -> None:
    """Text is escaped, markup is not; names that Python has for itself get an underscore."""
    inner = element("b", "1 < 2")
    assert inner == "<b>1 &lt; 2</b>"
    whole = element("p", "a & b ", inner, class_="x", aria_label='say "hi"')
    assert whole == '<p class="x" aria-label="say &quot;hi&quot;">a &amp; b <b>1 &lt; 2</b></p>'
    assert joined(["<", Markup("<br>")]) == "&lt;\n<br>"


def test_a_template() -> None:
    """Each mark gets its value; a value that looks like a mark stays text."""
    assert fill("{{a}}-{{b}}-{{a}}", {"a": "{{b}}", "b": element("i", "x")}) == "{{b}}-<i>x</i>-{{b}}"
