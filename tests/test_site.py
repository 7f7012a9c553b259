"""The site in a real browser, opened from a folder, where there is no network at all.

Here: what only the built site shows. Not here: the text of the pages (test_documents.py, test_reference.py).
"""

import json
from pathlib import Path

import pytest

import hostrouting
from tests.support.browser import Browser
from tests.support.pages import ROOT
from tests.support.programs import completed
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.linux, pytest.mark.nightly, pytest.mark.needs("root", "chromium", "make")]

PASTED = {
    "Nov 24 03:11:02 gpu17 static-routes.sh[4]: OVERLAP: expected CIDR 10.9.0.0/16 (10.9.5.0\u201310.9.255.255) routes via ib3"
    " [10.9.0.0/16 proto kernel], expected eth0": "overlap",
    "NO-ROUTE: expected CIDR 10.9.0.0/16 (10.9.0.0\u201310.9.255.255) has no IPv4 route; expected via eth0": "no-route",
    "OVERLAP: a part of 172.16.0.0/16 leaves by ib3, not by eth0": "overlap",
    "Nov 24 03:11:02 gpu17 static-routes.sh[4]: static-routes: ROUTE-CONFLICT: 172.16.0.0/17: another route has the same"
    " destination and metric: [172.16.0.0/17 dev ib0], which is not ours": "route-conflict",
    "guard: no longer: ROUTE-WAITS: 172.16.0.0/17: waiting for an IPv4 default route": "route-waits",
    "the repair diverts addresses of fd00:9::/48 from ib3: neighbours there, in the repaired range, become unreachable over"
    " IP": "repair-cost",
    "packets of pods from 10.9.0.0/24 are dropped when they arrive on cali9: cali9 does not forward packets"
    " (net.ipv4.conf.cali9.forwarding is 0)": "dropped",
}
"""Lines of a log as a reader pastes them, and the finding that each is about."""

PASTE = """
(() => {
  const field = document.querySelector(".md-search__input");
  field.focus();
  field.value = %s;
  field.dispatchEvent(new InputEvent("input", {inputType: "insertFromPaste", bubbles: true}));
})()
"""
FOUND = """
[...document.querySelectorAll(".md-search-result__item")].slice(0, 1).flatMap(item =>
  [...item.querySelectorAll("a")].slice(0, 2).map(link => link.href.replace(/^.*[/]/, "").replace(/[?][^#]*/, "")))
"""


def test_the_site(tmp_path: Path) -> None:
    """A pasted line finds its section; each page says its version, and fits a phone and a desk, light and dark."""
    built = completed(["make", "docs"], cwd=ROOT)
    assert built.returncode == 0, built.stderr
    site = ROOT / ".cache/site"
    with Browser(tmp_path) as browser:
        for line, name in PASTED.items():
            browser.open(site / "index.html")
            browser.ask(PASTE % json.dumps(line))
            wait_for("results", lambda: len(browser.ask(FOUND)) > 1)
            assert browser.ask(FOUND)[1] == f"findings.html#{name}", line
        for number, page in enumerate(sorted(site.glob("*.html"))):
            for width in (390, 1280):
                browser.open(page, width=width, dark=number % 2 > 0)
                dark = browser.ask("document.body.dataset.mdColorScheme") == "slate"
                assert dark == (number % 2 > 0), page
                assert browser.ask("document.documentElement.scrollWidth") <= width, page
                assert f"hostrouting {hostrouting.__version__}" in browser.ask("document.body.innerText"), page
                broken = browser.ask("[...document.images].filter(it => !it.naturalWidth).map(it => it.src)")
                assert broken == [], page
