"""What each command prints in each case: its page, its document and its exit code, as __snapshots__
has them.

To write them anew, after a look at the difference: pytest --snapshot-update.
"""

import json
import re
import shlex
import shutil
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import pytest

from hostrouting.boot.program import version
from hostrouting.cli.parser import COMMANDS, make_parser
from hostrouting.kernel.base import Answer
from hostrouting.model.prefix import IP, Prefix
from hostrouting.model.route import Route
from hostrouting.model.rule import Rule
from hostrouting.model.snapshot import Link
from hostrouting.testing import FakeFiles, FakeHost, FakeKernel, h200, plain_vm
from tests.support import azure_leftovers as azure
from tests.support.cli import Said, say
from tests.support.incidents import GUARDED, config, start_vpn
from tests.support.statuses import INCIDENTS, after, load_override, lost, right, right_but, written
from tests.support.tasks import CIDR, LAYOUT, REPAIR, document, lose_routes, type_routes
from tests.support.topologies import cni_node, marked_vm, refusing, with_docker

REPAIRED = document(*REPAIR)
HELD = Route.to(REPAIR[0], dev="ib3", protocol=4)
FORBIDS = Rule(family=4, priority=100, action="prohibit", dst=Prefix.parse(CIDR))


def with_seven_networks() -> FakeKernel:
    kernel = plain_vm()
    for number in range(7):
        kernel.add_link(Link(name=f"br-{number}", index=0, kind="bridge"))
        kernel.add_address(f"br-{number}", f"172.{17 + number}.0.1/16")
    return kernel


def of(
    kernel: Callable[[], FakeKernel], change: Callable[[FakeKernel], object] = lambda _: None
) -> Callable[[], FakeHost]:
    """A host with this kernel, in which something has changed."""

    def make() -> FakeHost:
        host = FakeHost(kernel=kernel())
        change(host.kernel)
        return host

    return make


def applied(
    settings: dict[str, object] = REPAIRED, change: Callable[[FakeHost], object] = lambda _: None
) -> Callable[[], FakeHost]:
    """An H200 node with this configuration, on which something has changed since."""

    def make() -> FakeHost:
        host = FakeHost(kernel=h200())
        say("apply", "--config", "-", "--wait", "0", host=host, stdin=json.dumps(settings).encode())
        change(host)
        return host

    return make


def also_by_protocol(kernel: FakeKernel) -> None:
    kernel.add_rule(Rule(family=4, priority=100, table=77, others=(("ipproto", "tcp"),)))


def taken(host: FakeHost) -> None:
    [ours] = [route for route in host.kernel.snapshot().routes if str(route.prefix) == REPAIR[0]]
    host.kernel.ip_route("delete", ours)
    host.kernel.ip_route("add", HELD)


def with_kubelet(host: FakeHost) -> None:
    assert host.manager is not None
    host.manager.states["kubelet.service"] = "active"
    host.manager.properties["k3s.service"] = {"LoadState": "loaded", "UnitFileState": "enabled"}


class Eccentric(FakeKernel):
    def lookup(self, destinations: Sequence[IP]) -> tuple[Answer, ...]:
        return tuple(Answer("no-route", None) for _ in destinations)


def eccentric() -> FakeHost:
    kernel = Eccentric()
    kernel.add_link("eth0")
    kernel.ip_route("add", Route.to("0.0.0.0/0", dev="eth0"))
    return FakeHost(kernel=kernel)


def hide_pods(kernel: FakeKernel) -> None:
    kernel.ip_route("add", Route(Prefix.parse("10.244.0.128/25"), type="blackhole", protocol=4))


def type_repair(host: FakeHost) -> None:
    type_routes(host, *REPAIR)


def type_by_hand(host: FakeHost) -> None:
    type_routes(host, *REPAIR, protocol=3)


BETTER_CARD = "differs: another card has a better default route, and addresses escape"
WITH_GUARD = {**REPAIRED, "guard": {"enabled": True}}
WARN = {"expectedCidrs": [CIDR], "mode": "WARN"}
GATED = config(*REPAIR, guard=GUARDED)
ABSENT = {"expectedCidrs": [CIDR], "expectedDevs": ["eth7"]}
HOLDING = of(h200, lambda kernel: kernel.ip_route("add", HELD))
AZURE: dict[str, object] = {"azureVnetCleanup": {"managed": list(azure.MANAGED)}}
ACTIVE = {"/etc/cni/net.d/10-azure.conflist": '{"plugins": [{"type": "azure-vnet"}]}'}
PLAN = "plan --config FILE"
APPLY = "apply --config FILE --wait 0"
CLEAN = "clean azure-vnet --config FILE"
ROUTES_UNIT, REFUSED = LAYOUT.unit_path(LAYOUT.routes_unit), "Operation not permitted"
GARBLED, OPENED = written(LAYOUT.config_path, "{"), written(LAYOUT.opening_path, "ticket 4711\n")
LOST = lost(LAYOUT.config_path)

CASES: dict[
    str, tuple[str, Callable[[], FakeHost]] | tuple[str, Callable[[], FakeHost], dict[str, object]]
] = {
    "check: ok": (f"check {CIDR}", of(plain_vm)),
    "check: ok, by pods' devices": ("check 10.244.0.0/24", of(cni_node)),
    "check: overlap": (f"check {CIDR}", of(h200)),
    "check: overlap that may be intended": ("check 172.16.0.0/12", of(with_docker)),
    "check: seven overlaps of a kind": ("check 172.16.0.0/12", of(with_seven_networks)),
    "check: overlap of which a part has no repair": (f"check {CIDR}", of(refusing)),
    "check: undecided, other packets": (f"check {CIDR}", of(marked_vm)),
    "check: undecided, for two reasons": (f"check {CIDR}", of(marked_vm, also_by_protocol)),
    "check: no default route": (f"check {CIDR} fd00::/48", of(FakeKernel)),
    "check: a device that is not there": (
        "check --config FILE",
        of(h200),
        {"routeOverlap": ABSENT},
    ),
    "check: a bad configuration": (
        "check --config FILE",
        of(h200),
        {"routeOverlap": {"mode": 1, "modes": 2}},
    ),
    "check: a broken installation": ("check 172.16.0.0/16", applied(change=GARBLED)),
    "check: kubelet is not gated": ("check", applied(change=with_kubelet)),
    "check: kubelet is not gated by a new file": (
        "check --config FILE",
        after(of(h200), with_kubelet),
        REPAIRED,
    ),
    "check: a repair that is not in the configuration": ("check", applied(document(), type_repair)),
    "check: a route hides pods": ("check 10.244.0.0/24", of(cni_node, hide_pods)),
    "check: a card is to be named before a repair": ("check", INCIDENTS[BETTER_CARD]),
    "repair: a configuration": (f"repair {CIDR}", of(h200)),
    "repair: nothing to repair": (f"repair {CIDR}", of(plain_vm)),
    "repair: a configuration for a part": (f"repair {CIDR}", of(refusing)),
    "repair: none": (f"repair {CIDR}", of(plain_vm, lambda kernel: kernel.add_rule(FORBIDS))),
    "repair: undecided": (f"repair {CIDR}", of(marked_vm)),
    "repair: no default route": (f"repair {CIDR}", of(FakeKernel)),
    "repair: the place of a route is taken": ("repair --config FILE", HOLDING, REPAIRED),
    "repair: the configuration is not in force": ("repair", applied(change=lose_routes)),
    "repair: the kernel differs from its tables": (f"repair {CIDR}", eccentric),
    "repair: typed until the next boot": (f"repair {CIDR}", after(of(h200), type_by_hand)),
    "repair: a route hides pods": ("repair 10.244.0.0/24", of(cni_node, hide_pods)),
    "repair: one family has no default route": (f"repair {CIDR} fd00::/64", of(h200)),
    "repair: of a family that has no default route": (
        "repair fd00::/64",
        applied(change=lose_routes),
    ),
    "plan: to do": (PLAN, of(h200), REPAIRED),
    "plan: nothing to do": (PLAN, applied(), REPAIRED),
    "plan: a conflict, and a route waits": (PLAN, HOLDING, document(*REPAIR, "fd00::/64")),
    "plan: not ready": (PLAN, of(FakeKernel), document("9.0.0.0/8")),
    "plan: no default route": (PLAN, of(FakeKernel), document()),
    "plan: an overlap is left, STRICT": (PLAN, of(h200), document()),
    "plan: an overlap is left, WARN": (PLAN, of(h200), document(mode="WARN")),
    "plan: a removal": (PLAN, applied(), document(*REPAIR, mode="WARN")),
    "plan: a guard": (PLAN, applied(), WITH_GUARD),
    "apply: done": (APPLY, of(h200), REPAIRED),
    "apply: nothing to do": (APPLY, applied(), REPAIRED),
    "apply: routes are back": (APPLY, right_but(lose_routes), GATED),
    "apply: a conflict": (APPLY, HOLDING, REPAIRED),
    "apply: an overlap is left, STRICT": (APPLY, of(h200), document()),
    "apply: a removal": (APPLY, applied(), document(*REPAIR, mode="WARN")),
    "apply: an allowed removal": (
        f"{APPLY} --allow-removal",
        applied(),
        document(*REPAIR, mode="WARN"),
    ),
    "apply: the gate is open": (APPLY, applied(change=OPENED), REPAIRED),
    "apply: an overlap is left, WARN": (APPLY, of(h200), document(mode="WARN")),
    "apply: no default route": (APPLY, of(FakeKernel), document()),
    "apply: what is piped is empty": ("apply --config -", of(h200)),
    "apply: routes wait for a device to be named": (APPLY, after(right, start_vpn), GATED),
    "apply: another drop-in takes the gate away, STRICT": (APPLY, right_but(load_override), GATED),
    "apply: another drop-in takes the gate away, WARN": (
        APPLY,
        right_but(load_override, routeOverlap=WARN),
        {**GATED, "routeOverlap": WARN},
    ),
    # tests/hostrouting/status has the other pages.
    "status: routes are lost": ("status", INCIDENTS["differs: routes are missing"]),
    "status: nothing is installed": ("status", of(h200)),
    "remove: nothing is installed": ("remove", of(h200)),
    "remove: done": ("remove", applied(WITH_GUARD)),
    "remove: a dry run": ("remove --dry-run", applied()),
    "remove: a dry run, and nothing is installed": ("remove --dry-run", of(h200)),
    "remove: a dry run, and config.json is lost": ("remove --dry-run", applied(change=LOST)),
    "remove: a file stays": (
        "remove",
        applied(change=lambda host: host.files.broken.update({ROUTES_UNIT: REFUSED})),
    ),
    "render: done": ("render --config FILE --root IMAGE", of(h200), REPAIRED),
    "clean: stale": (CLEAN, azure.host, AZURE),
    "clean: deleted": (f"{CLEAN} --apply", azure.host, AZURE),
    "clean: nothing is stale": (CLEAN, azure.AzureHost, AZURE),
    "clean: refused": (
        f"{CLEAN} --apply",
        lambda: azure.host(files=FakeFiles(dict(ACTIVE))),
        AZURE,
    ),
    "clean: would be refused": (CLEAN, lambda: azure.host(files=FakeFiles(dict(ACTIVE))), AZURE),
    "clean: no section": (CLEAN, azure.AzureHost, REPAIRED),
}


CALL = re.compile(rf"\bhostrouting ((?:{'|'.join(COMMANDS)})\b[^|;&>\n]*)")
"""A call of hostrouting that is printed, and its words."""
READING = {"check", "plan", "repair", "status"}
"""The commands that change nothing: one host will do for the page and the document."""


def pages(name: str, folder: Path) -> str:
    """One case: the page and the document, without what is in both."""
    words, make, *settings = CASES[name]
    command, *_ = words.split()
    if command in READING:
        make = cache(make)
    image = folder / "image"
    path = folder / "config.json"
    path.write_text(json.dumps(settings[0] if settings else {}))
    typed = words.replace("FILE", str(path)).replace("IMAGE", str(image)).split()

    def said(*more: str) -> Said:
        """What the host says, with an empty image."""
        shutil.rmtree(image, ignore_errors=True)
        image.mkdir()
        return say(*typed, *more, host=make())

    page = said()
    document = said("--json")
    assert document.code == page.code
    assert document.out == json.dumps(document.json, indent=2) + "\n"
    printed = page.out + page.err
    for typed_next in CALL.findall(printed):
        call = shlex.split(typed_next)
        if call[-1] == "--config":  # whose end the operator knows
            call.append("backup.json")
        if "--help" not in call:
            make_parser().parse_args(call)
    text = without_repetitions(page.out)
    text = without_end(text)
    if text.startswith("{"):
        assert text == json.dumps(document.json["config"], indent=2) + "\n"
        text = "{…}"
    told = [line for line in page.err.splitlines() if not line.startswith("will delete ")]
    shown = [f"$ {words}    # {name}", *text.splitlines()]
    shown += [f"! {remark}" for remark in told]
    shown.append(f"= {page.code} {json.dumps(document.json)}")
    return (
        "\n".join(shown)
        .replace(str(path), "FILE")
        .replace(str(image), "IMAGE")
        .replace(version(), "VERSION")
    )


def without_repetitions(page: str) -> str:
    """The page with the first of several lines that begin alike."""
    several = r"(\n  (write|wrote|removed?|delete rule|conflict) [^\n]+)(\n  \2 [^\n]+)+"
    return re.sub(several, r"\1 …", page)


def without_end(page: str) -> str:
    """The page without the end that it has from `status`, whose own pages show it."""
    return re.sub(r"\n  mode (?:STRICT|WARN)\b(?s:.*)", "\n  …", page)


@pytest.mark.parametrize("command", [name for name in COMMANDS if "--json" in COMMANDS[name][1]])
def test_pages_and_documents(
    command: str, tmp_path: Path, snapshot: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page, a document and one exit code; on standard error only remarks."""
    monkeypatch.setattr("hostrouting.cli.commands.clean.CleanStaleAzureVnet", azure.task)
    names = [name for name in CASES if name.startswith(f"{command}:")]
    assert names, "each command with a document is shown"
    assert snapshot == "\n".join(pages(name, tmp_path) for name in names)


def test_many_leftovers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page has some of them, and counts the others."""
    monkeypatch.setattr("hostrouting.cli.commands.clean.CleanStaleAzureVnet", azure.task)
    monkeypatch.setattr("hostrouting.lines.SHOWN", 1)
    words, stdin = CLEAN.replace("FILE", "-"), json.dumps(AZURE).encode()
    assert "more; --json shows all" in say(*words.split(), host=azure.host(), stdin=stdin).out
