"""The page about many nodes in a real browser: it fits, can be read, searched and used with the keyboard, without network."""

from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import attrs
import pytest

from hostrouting.errors import InputError
from hostrouting.fleet import NodeResult, group_nodes
from hostrouting.fleet.judge import Question, judge
from hostrouting.fleet.page import maps_of, render_page
from hostrouting.testing import cni_node, h200, plain_vm, vpn_node
from tests.support.browser import Browser
from tests.support.fleets import config_of, distinct_nodes

pytestmark = [pytest.mark.linux, pytest.mark.nightly, pytest.mark.needs("root", "chromium")]

ASKED = Question(config_of("172.16.0.0/16", "10.244.0.0/16"))
TAB, ENTER = 9, 13

# The texts whose contrast with what is behind them is too low, each with the ratio.
CONTRAST = """
(() => {
  const parts = text => text.match(/[\\d.]+/g).map(Number);
  const luminance = ([r, g, b]) => [r, g, b].map(it => it / 255).map(it => it <= 0.03928 ? it / 12.92 : ((it + 0.055) / 1.055) ** 2.4)
    .reduce((sum, it, at) => sum + it * [0.2126, 0.7152, 0.0722][at], 0);
  const behind = element => {
    for (let it = element; it; it = it.parentElement) {
      const colour = parts(getComputedStyle(it).backgroundColor);
      if (colour.length === 3 || colour[3] > 0) return colour;
    }
  };
  const found = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || ["SCRIPT", "STYLE", "OPTION"].includes(element.tagName)) continue;
    const [one, other] = [luminance(parts(getComputedStyle(element).color)), luminance(behind(element))];
    const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    if (ratio < 4.5) found.push([walker.currentNode.data.trim().slice(0, 40), ratio]);
  }
  return found;
})()
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One browser for all tests."""
    with Browser(tmp_path_factory.mktemp("browser")) as found:
        yield found


def page_of(path: Path, nodes: dict[str, str], more: tuple[NodeResult, ...] = ()) -> Path:
    """The page about these nodes, in a file."""
    results = [attrs.evolve(judge(text.encode(), ASKED), name=name) for name, text in nodes.items()]
    groups = group_nodes([*results, *more])
    maps = [
        tuple(maps_of(nodes[group.nodes[0]].encode(), ASKED)) if group.verdict == "overlap" else () for group in groups
    ]
    path.write_text(render_page(groups, maps, ASKED, moment=datetime(2026, 11, 22, tzinfo=timezone.utc)))
    return path


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page about a few nodes, one of each kind."""
    own = cni_node().snapshot().to_json()
    broken = NodeResult("broken", failure=InputError("snapshot", path="links", problem="must be a list"))
    kinds = {"vm": plain_vm().snapshot().to_json(), "vpn": vpn_node().snapshot().to_json(), "cni": own}
    return page_of(tmp_path_factory.mktemp("few") / "page.html", {**distinct_nodes(3), **kinds}, (broken,))


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page about a thousand nodes."""
    gpu, vm = h200().snapshot().to_json(), plain_vm().snapshot().to_json()
    nodes = {f"node-{number:04}": gpu if number % 4 == 0 else vm for number in range(1000)}
    return page_of(tmp_path_factory.mktemp("many") / "page.html", nodes)


@pytest.mark.parametrize("width", [320, 700, 1600])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_it_fits_and_can_be_read(browser: Browser, few: Path, width: int, *, dark: bool) -> None:
    """In any window, nothing sticks out to the side, and every text stands out from what is behind it."""
    browser.open(few, width=width, dark=dark)
    assert browser.ask("document.scrollingElement.scrollWidth <= innerWidth")
    assert browser.ask(CONTRAST) == []
    ground = browser.ask("getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(255, 255, 255)") is not dark


def shown(browser: Browser) -> list[str]:
    """The names of the nodes whose rows are visible."""
    rows = "[...document.querySelectorAll('#every tbody tr')].filter(it => it.offsetHeight)"
    found: list[str] = browser.ask(f"{rows}.map(it => it.cells[0].textContent)")
    return found


def test_the_search(browser: Browser, many: Path) -> None:
    """Each typed word leaves the rows that have it; a verdict does, too; the number of rows is shown."""
    browser.open(many)
    assert len(shown(browser)) == 1000
    browser.ask("document.getElementById('text').focus()")
    browser.type("node-01 IB0")
    assert shown(browser) == [f"node-{number:04}" for number in range(100, 200, 4)]
    assert browser.ask("document.getElementById('shown').value") == "25 of 1,000 nodes"
    browser.ask("text.value = ''; verdict.value = 'ok'; verdict.dispatchEvent(new Event('change'))")
    assert len(shown(browser)) == 750
    browser.ask("verdict.focus()")
    browser.ask("text.focus()")
    browser.type("nothing like this")
    assert shown(browser) == []


def test_without_script(browser: Browser, few: Path) -> None:
    """If scripts are off, everything can be read, and there is no search that would not work."""
    browser.open(few, script=False)
    dom = browser.do("DOM.getDocument", depth=1)["root"]["nodeId"]

    def box(selector: str) -> bool:
        node = browser.do("DOM.querySelector", nodeId=dom, selector=selector)["nodeId"]
        quads: list[Any] = browser.do("DOM.getContentQuads", nodeId=node)["quads"] if node else []
        return bool(quads)

    assert box("#every tbody tr:last-child")
    assert box(".map .bar")
    tree = accessible(browser)
    assert not [it for it in tree if it[0] == "searchbox"]
    assert ("rowheader", "vm") in tree


def accessible(browser: Browser) -> list[tuple[str, str]]:
    """What a screen reader finds: the role and the name of each thing."""
    nodes = browser.do("Accessibility.getFullAXTree")["nodes"]
    return [
        (node["role"]["value"], node.get("name", {}).get("value", ""))
        for node in nodes
        if not node["ignored"] and "role" in node
    ]


def test_a_screen_reader(browser: Browser, few: Path) -> None:
    """Tables, their heads, fields and sections have names; the picture of a map is left to the words below it."""
    browser.open(few)
    tree = accessible(browser)
    assert {name for role, name in tree if role == "table"} == {"The worst come first.", "172.16.0.0/16 on node-00000"}
    assert {name for role, name in tree if role == "columnheader"} == {"Nodes", "Verdict", "Problem", "Repair", "Node"}
    assert {"now", "repaired", "vm", "node-00001"} <= {name for role, name in tree if role == "rowheader"}
    assert ("searchbox", "Search in names and problems") in tree
    assert ("combobox", "Verdict") in tree
    headings = [name for role, name in tree if role == "heading"]
    assert headings[:3] == ["The routing of 7 nodes", "Nodes with the same problem", "3 nodes: 172.16.0.0/16 by ib0"]
    assert {"main", "banner", "contentinfo", "search"} <= {role for role, _ in tree}
    assert all(name for role, name in tree if role in {"region", "link", "heading", "table", "searchbox", "combobox"})
    # The bar says "ib0", and so do the words of the range.
    assert [name for role, name in tree if role == "StaticText" and name == "ib0"] == []
    assert any(name.startswith("172.16.0.0–172.16.255.255: ib0, ") for role, name in tree if role == "StaticText")  # noqa: RUF001  the dash is meant


def test_the_keyboard(browser: Browser, few: Path) -> None:
    """The first key leads past the problems to the nodes; everything that can be used gets the focus, and shows it."""
    browser.open(few)
    browser.press("Tab", code=TAB)
    assert browser.ask("document.activeElement.textContent") == "Skip to the table of nodes"
    assert browser.ask("document.activeElement.getBoundingClientRect().left >= 0")
    browser.press("Enter", code=ENTER)
    assert browser.ask("document.activeElement.id") == "nodes"
    browser.press("Tab", code=TAB)
    assert browser.ask("document.activeElement.id") == "text"
    browser.press("Tab", code=TAB)
    assert browser.ask("document.activeElement.id") == "verdict"
    browser.open(few)
    stops: list[str] = []
    for _ in range(40):
        browser.press("Tab", code=TAB)
        where, outline = browser.ask(
            "[document.activeElement.outerHTML.slice(0, 60), getComputedStyle(document.activeElement).outlineStyle]"
        )
        if "<body" in where or (stops and where == stops[0]):
            break
        assert outline != "none", where
        stops.append(where)
    usable = "a[href], input, select, summary, [tabindex='0']"
    assert len(stops) == browser.ask(f'document.querySelectorAll("{usable}").length')


@pytest.mark.parametrize("script", ["<script>pwned = 1</script>", "<img src=x onerror='pwned = 1'>"])
def test_the_policy_of_the_page(browser: Browser, few: Path, tmp_path: Path, script: str) -> None:
    """Even if there were markup in a value, the page would not let it run."""
    (tmp_path / "page.html").write_text(few.read_text().replace("</h1>", f"</h1>{script}"))
    browser.open(tmp_path / "page.html")
    browser.ask("new Promise(done => setTimeout(done, 200))")
    assert browser.ask("typeof pwned") == "undefined"
    assert browser.ask("document.getElementById('shown').value") == "7 of 7 nodes"
