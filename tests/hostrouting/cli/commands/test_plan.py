"""`plan`: what apply would do, and an exit code for automation."""

from collections.abc import Callable

import attrs
import pytest

from hostrouting.testing import FakeHost, FakeKernel, h200
from tests.support.cli import say

HALF = {"destination": "172.16.0.0/17"}


def test_the_whole_page(repaired: str) -> None:
    """First how much there is to do, then the diff, the files, what the check would say then, and how to do it."""
    said = say("plan", "--config", repaired, kernel=h200())
    assert said.code == 1
    assert said.lines[:5] == [
        "TO DO: add 2 routes, write 8 files",
        "",
        "  + 172.16.0.0/17 via 10.0.0.1 dev eth0 proto hostrouting    # add: missing",
        "  + 172.16.128.0/17 via 10.0.0.1 dev eth0 proto hostrouting    # add: missing",
        "  write /etc/hostrouting/config.json",
    ]
    assert "  write /etc/systemd/system/check-route-overlap.service" in said.lines
    assert say("plan", "--config", repaired, "--json", kernel=h200()).json["answer"] == "to-do"
    assert said.lines[-4:] == [
        "The verdict afterwards would be:",
        "  OK: every address of 172.16.0.0/16 leaves by eth0, or is this host's own",
        "",
        f"To apply it, as root: hostrouting apply --config {repaired}",
    ]


def test_law_after_apply_nothing_is_left_to_do(repaired: str) -> None:
    """In plan and in apply; also for the installed configuration, which is a configuration like any other."""
    host = FakeHost(kernel=h200())
    say("apply", "--config", repaired, host=host)
    text = host.files.texts[host.layout.config_path].encode()
    for path, name in ((repaired, repaired), ("-", "FILE")):
        planned = say("plan", "--config", path, host=host, stdin=text)
        assert (planned.code, planned.lines[0]) == (0, f"NOTHING TO DO: the host already matches {name}")
        assert planned.out.count("# keep: exists") == 2
        assert say("apply", "--config", path, host=host, stdin=text).lines[0] == planned.lines[0]


def test_what_is_there_before(written: Callable[..., str]) -> None:
    """The JSON has the route that a step replaces, or that is in its way."""
    host = FakeHost(kernel=h200())
    say("apply", "--config", written({**HALF, "gateway": "10.0.0.9"}), host=host)
    document = say("plan", "--config", written(HALF, mode="WARN"), "--allow-removal", "--json", host=host).json
    [step] = document["steps"]
    assert (step["action"], step["route"]) == ("replace", "172.16.0.0/17 via 10.0.0.1 dev eth0 proto hostrouting")
    assert step["existing"] == "172.16.0.0/17 via 10.0.0.9 dev eth0 proto hostrouting"
    assert document["check"]["mode"] == "WARN"
    document = say("plan", "--config", written({"destination": "172.16.0.0/16"}), "--json", kernel=h200()).json
    [step] = document["steps"]
    assert step["existing"] == "172.16.0.0/16 dev ib0 proto kernel scope link src 172.16.1.10"


def test_a_snapshot_has_no_files(repaired: str) -> None:
    """The plan of a snapshot has only routes, and says so: the files of its host are not known."""
    host = FakeHost(kernel=h200())
    before = say("snapshot", host=host).out.encode()
    said = say("plan", "--config", repaired, "--snapshot", "-", stdin=before)
    assert said.lines[0] == "TO DO: add 2 routes; only routes, because a snapshot has no files"
    assert say("plan", "--config", repaired, "--snapshot", "-", "--json", stdin=before).json["files"] is None
    say("apply", "--config", repaired, host=host)
    said = say("plan", "--config", repaired, "--snapshot", "-", stdin=say("snapshot", host=host).out.encode())
    assert said.lines[0] == (
        f"NOTHING TO DO: the routes already match {repaired}; only routes, because a snapshot has no files"
    )


def test_no_default_route_to_judge_by(written: Callable[..., str]) -> None:
    """Without a default route and static routes the result is unknown: exit code 3, also of apply and status."""
    config, host = written(), FakeHost(kernel=FakeKernel())
    said = say("plan", "--config", config, host=host)
    assert said.code == 3
    assert said.lines[0] == "NOT READY: apply would wait for an IPv4 default route, which the check needs"
    said = say("apply", "--config", config, "--wait", "0", host=host)
    assert said.code == 3
    assert said.lines[-1].startswith("NO-DEFAULT-ROUTE: ") or "no IPv4 default route" in said.out + said.err
    assert say("status", host=host).code == 3


STUCK = {"conflict": {"destination": "172.16.0.0/16"}, "pending": {"destination": "9.0.0.0/8", "dev": "eth9"}}


@pytest.mark.parametrize("stuck", STUCK)
def test_what_cannot_be_done_lists_what_would_be_done_all_the_same(written: Callable[..., str], stuck: str) -> None:
    """With a conflict, or if something is missing, the plan has the files that apply writes before it fails."""
    config, host = written(HALF, STUCK[stuck]), FakeHost(kernel=h200())
    said = say("plan", "--config", config, host=host)
    document = say("plan", "--config", config, "--json", host=host).json
    done = say("apply", "--config", config, "--json", "--wait", "0", host=host)
    assert done.code
    assert sorted(document["files"]["write"]) == sorted(done.json["files"]["write"])
    assert document["files"]["write"] == [text.removeprefix("  write ") for text in said.lines if "  write " in text]
    assert document["changes"] is True
    assert (document["answer"], said.code) == {"conflict": ("conflict", 1), "pending": ("not-ready", 3)}[stuck]
    assert ("  + " in said.out) is (stuck == "pending")


def test_whether_units_would_be_held_back(written: Callable[..., str]) -> None:
    """On a new host the files come first, and hold units back; where something is installed, a conflict changes nothing."""
    config, waits = written(HALF, STUCK["conflict"]), written(HALF, STUCK["pending"])
    host = FakeHost(kernel=h200())
    said = say("plan", "--config", config, host=host)
    stuck, none = "CONFLICT: 1 route cannot be added; apply would change", ", and no gated unit starts"
    assert said.lines[0] == f"{stuck} no route and fail{none}"
    assert "configure 172.16.0.0/17 and 172.16.128.0/17, which take precedence" in said.lines[2]
    saved = say("plan", "--config", config, "--snapshot", "-", stdin=say("snapshot", host=host).out.encode())
    assert saved.lines[0] == f"{stuck} no route and fail; only routes, because a snapshot has no files"
    say("apply", "--config", written(HALF), host=host)
    assert say("plan", "--config", config, host=host).lines[0] == f"{stuck} nothing and fail"
    said = say("plan", "--config", waits, host=host)
    assert said.lines[0] == f"NOT READY: apply would wait for what is missing{none} until then"


def test_what_the_host_lacks(repaired: str) -> None:
    """A program that the scripts need is missing: apply would fail, and plan names the package."""
    host = attrs.evolve(FakeHost(kernel=h200()), find_program=lambda name: None if name == "nsenter" else name)
    said = say("plan", "--config", repaired, host=host)
    assert (said.code, said.lines[0]) == (1, "CONFLICT: apply would fail, for the reasons below")
    assert any(row.startswith("PROGRAM: ") and row.endswith("util-linux") for row in said.lines)
    assert "To apply it" not in said.out


@pytest.mark.parametrize(("mode", "fails"), [("STRICT", True), ("WARN", False)])
def test_what_would_not_be_closed(written: Callable[..., str], mode: str, *, fails: bool) -> None:
    """If an address would still escape, the plan names the command for the repair; in STRICT, it proposes no apply."""
    config = written({"destination": "10.98.0.0/16"}, mode=mode)
    host = FakeHost(kernel=h200())
    said = say("plan", "--config", config, host=host)
    told = "apply would do all of this, and then fail, and no gated unit would start: the mode is STRICT."
    assert (told in said.lines) is fails
    assert ("To apply it" in said.out) is not fails
    say("apply", "--config", config, host=host)
    done = say("plan", "--config", config, host=host)
    first = "OVERLAP: apply would change nothing and fail: the mode is STRICT, so no gated unit starts"
    assert (done.code, done.lines[0].partition(":")[0]) == ((1, "OVERLAP") if fails else (0, "NOTHING TO DO"))
    assert (first in done.lines) is fails
    assert told not in done.lines
    document = say("plan", "--config", config, "--json", host=host).json
    assert (document["answer"], document["changes"]) == ("overlap" if fails else "nothing-to-do", False)
    assert f"To print the routes that the configuration lacks: hostrouting repair --config {config}" in said.lines
    snapshot = say("snapshot", kernel=h200()).out.encode()
    saved = say("plan", "--config", config, "--snapshot", "-", stdin=snapshot)
    assert (
        f"To print the routes that the configuration lacks: hostrouting repair --config {config} --snapshot -"
        in saved.lines
    )
