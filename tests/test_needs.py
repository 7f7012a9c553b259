"""tests.support.needs: what the end of a run says about the tests that were skipped."""

import os

import pytest

from tests.support import needs
from tests.support.needs import absent, advice, require

ROOT_ONLY = "Skipped: it needs root"


def user(monkeypatch: pytest.MonkeyPatch, number: int, *, may: bool = True) -> None:
    """Who runs the tests."""
    monkeypatch.setattr(os, "geteuid", lambda: number)
    monkeypatch.setattr(needs, "_may_make_namespaces", lambda: may)


def test_what_is_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason of a skip names all that is missing, and nothing else; root is user 0, if it may make namespaces."""
    monkeypatch.setattr(needs, "PATH", "/nowhere")
    for number, may, lacking in ((1000, True, ["root", "nft"]), (0, False, ["root", "nft"]), (0, True, ["nft"])):
        user(monkeypatch, number, may=may)
        assert absent(["root", "nft"]) == lacking
        with pytest.raises(pytest.skip.Exception, match=f"^it needs {', '.join(lacking)}$"):
            require("root", "nft")
    require("root")


def test_the_summary(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line for each reason, the most frequent first, and one command that says who may run it."""
    user(monkeypatch, 1000)
    assert advice(["Skipped: it needs root, promtool, nft", ROOT_ONLY, ROOT_ONLY, "Skipped: no"]) == [
        "    2 skipped: it needs root",
        "    1 skipped: it needs root, promtool, nft",
        "    1 skipped: no",
        "To run these tests too, as root: apt-get install nftables prometheus && make test",
    ]
    assert advice(["Skipped: it needs nft"])[-1] == "To run these tests too: apt-get install nftables, as root"
    assert advice(["Skipped: no"]) == ["    1 skipped: no"]
    user(monkeypatch, 0, may=False)
    assert advice([ROOT_ONLY])[-1] == (
        "To run these tests too, as a root that may make namespaces (in a container: --privileged): make test"
    )
