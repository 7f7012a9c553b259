"""The installed config.json is broken or empty: the installed scripts go on, so the commands read
from the scripts what is in force, and say how to get the file back.
"""

import errno
import json
import re
from collections.abc import Callable

import attrs
import pytest

from hostrouting.errors import HostError
from hostrouting.host.files import Entry
from hostrouting.model.route import Route
from hostrouting.testing import FakeFiles, FakeHost, h200
from tests.support.cli import say
from tests.support.incidents import (
    BY_HAND,
    GUARDED,
    KUBELET,
    apply,
    config,
    escaping_node,
    garble,
    node,
    plan,
)
from tests.support.tasks import CIDR, LAYOUT, REPAIR, lose_routes, type_routes
from tests.support.topologies import BY_IPV6, ETH1


def test_a_broken_file_hides_neither_the_mode_nor_the_verdict() -> None:
    """`status` has the mode, the guard, the gated units and the verdict from the scripts."""
    host = node(config(*REPAIR, guard=GUARDED))
    garble(host)
    lose_routes(host)
    status = say("status", host=host)
    assert status.code == 2
    assert "the gate still checks kubelet.service" in status.out
    assert "mode STRICT; the guard runs" in status.out
    assert any(line.startswith("OVERLAP: ") for line in status.lines)


SCRIPT = LAYOUT.step_path("50-licence")
CHECK_STEP = LAYOUT.step_path(LAYOUT.check_step)


def open_to_others(host: FakeHost) -> None:
    """A script that somebody else has added, and that others can change."""
    host.files.texts[SCRIPT] = "exit 0\n"
    host.files.modes[SCRIPT] = 0o666


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (open_to_others, f"users other than root can write to {SCRIPT}, so the gate does not run"),
        (lambda host: host.files.texts.pop(LAYOUT.gate_path), f"{LAYOUT.gate_path} is missing"),
        (lambda host: host.files.texts.pop(CHECK_STEP), f"{CHECK_STEP} is missing"),
        (lambda host: host.files.texts.update({CHECK_STEP: ""}), f"{CHECK_STEP} is empty"),
        (
            lambda host: host.files.modes.update({CHECK_STEP: 0o777}),
            f"users other than root can write to {CHECK_STEP}, so the gate does not run",
        ),
    ],
    ids=["a script", "gate.sh", "no check", "an empty check", "a check that others can change"],
)
def test_a_broken_file_does_not_hide_that_the_gate_is_shut(
    change: Callable[[FakeHost], object], words: str
) -> None:
    """Then the gate does not check: it refuses each start."""
    host = node(config(*REPAIR))
    garble(host)
    change(host)
    status = say("status", host=host)
    assert status.code == 2
    [line] = [line for line in status.lines if line.startswith("GATE-SHUT: ")]
    assert words in line
    assert "the gate still checks" not in status.out


def test_a_broken_file_without_gated_units() -> None:
    """No gate is missed where none was installed."""
    host = node({"manageForeign": "keep"})
    host.files.texts[LAYOUT.config_path] = "{"
    status = say("status", host=host)
    assert status.out.startswith("BROKEN: ")
    assert LAYOUT.gate_path not in status.out


@pytest.mark.parametrize(
    "text", ["{}", '{"hostRouting": {}}', '{"hostRouting": {"azureVnetCleanup": null}}', ""]
)
def test_an_emptied_file_does_not_mean_that_nothing_is_installed(text: str) -> None:
    """`status` calls the host broken, as where the file is missing,
    and `apply` refuses the text.
    """
    host = node(config(*REPAIR, guard=GUARDED))
    host.files.texts[LAYOUT.config_path] = text
    lose_routes(host)

    status = say("status", KUBELET, host=host)
    assert status.code == 2
    assert status.lines[0].startswith("BROKEN:")
    assert "the gate still checks kubelet.service" in status.out
    assert f"  {KUBELET} runs" in status.lines
    assert "not gated" not in status.out
    assert any(line.startswith("OVERLAP: ") for line in status.lines)
    assert "hostrouting_installed 1" in say("status", "--metrics", host=host).lines

    refused = apply(host, text)
    assert refused.code == 2
    assert "{}" not in refused.out + refused.err
    assert host.files.texts[LAYOUT.config_path] == text


def test_the_file_of_another_release() -> None:
    """The page says which release wrote the file, and counts the faults that a reader of the first
    line does not need; `check` lists all of them.
    """
    host = node(config(*REPAIR))
    written = json.loads(host.files.texts[LAYOUT.config_path])
    written["writtenBy"] = "hostrouting 0.9"
    written["hostRouting"]["routeOverlap"]["allowedDevs"] = ["a b", "c d", "e f", "g h", "i j"]
    host.files.texts[LAYOUT.config_path] = json.dumps(written)

    status = say("status", host=host)
    assert status.code == 2
    assert "5 faults: " in status.lines[0]
    assert '"e f" is not a device pattern; and 2 more' in status.out
    assert '"g h"' not in status.out
    assert any(
        "the files were written by hostrouting 0.9, but this is" in line for line in status.lines
    )
    assert say("check", host=host).err.count("is not a device pattern") == 5


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "[" * 100_000,
        '{"hostRouting": {"routeOverlap": {"mode": 1}}}',
        '{"writtenBy": null, "hostRouting": {"routeOverlap": {"mode": 1}}}',
    ],
    ids=["cut short", "a list", "nested deeply", "without a writer", "not a name"],
)
def test_a_file_that_does_not_say_who_wrote_it(text: str) -> None:
    """Nothing is said about the release: it is somebody's edit."""
    host = node(config(*REPAIR))
    host.files.texts[LAYOUT.config_path] = text
    status = say("status", host=host)
    assert status.lines[0].startswith("BROKEN: ")
    assert "were written by" not in status.out


SET_ROUTES_AGAIN = f"as root: systemctl restart {LAYOUT.routes_unit}"


def test_routes_that_are_lost_beside_a_broken_file() -> None:
    """`status` proposes to start the unit that sets the routes again, if any is missing."""
    host = node(config(*REPAIR))
    garble(host)
    assert SET_ROUTES_AGAIN not in say("status", host=host).out
    lose_routes(host)
    status = say("status", host=host)
    assert SET_ROUTES_AGAIN in status.out
    assert any(line.startswith("  + ") for line in status.lines)


def test_routes_that_cannot_come_back_beside_a_broken_file() -> None:
    """`status` proposes no unit that would fail: one of the routes waits for a default route."""
    host = FakeHost(kernel=h200())
    host.kernel.ip_route("add", BY_IPV6)
    apply(host, json.dumps(config(*REPAIR, "2001:db8:9::/48")))
    garble(host)
    lose_routes(host)
    assert SET_ROUTES_AGAIN in say("status", host=host).out
    host.kernel.ip_route("delete", BY_IPV6)
    assert SET_ROUTES_AGAIN not in say("status", host=host).out


@pytest.mark.parametrize("lost", [(), REPAIR], ids=["beside none", "beside lost ones"])
def test_routes_that_were_typed_beside_a_broken_file(lost: tuple[str, ...]) -> None:
    """`status` does not propose to start the unit that sets the routes: it would delete these."""
    host = node(config(*lost, mode="WARN"))
    garble(host)
    lose_routes(host)
    type_routes(host, "172.16.9.0/24")
    assert SET_ROUTES_AGAIN not in say("status", host=host).out


def test_a_copy_of_a_broken_file_has_systemd_read_its_files() -> None:
    """Nothing says which units the broken file gated, so systemd reads their files to be safe."""
    host = node(config(*REPAIR))
    copy = host.files.texts[LAYOUT.config_path]
    garble(host)
    reload = "  reload systemd    # to be safe: the installed file could not be read"
    assert reload in plan(host, copy, "--allow-removal").lines


def test_the_line_without_a_copy_brings_back_all_that_the_scripts_say() -> None:
    """The line that `status` prints brings back the mode, the guard, the gated units and the routes
    with their gateways, and gates no other unit.
    """
    settings = config(*REPAIR, guard=GUARDED)
    by_name = {"destination": "9.0.0.0/8", "dev": "eth0", "gateway": "10.0.0.1", "metric": 7}
    settings["staticRoutes"]["routes"].append(by_name)
    host = node(settings)
    before = json.loads(host.files.texts[LAYOUT.config_path])["hostRouting"]
    garble(host)
    lose_routes(host)

    [line] = [line for line in say("status", host=host).lines if ": echo " in line]
    assert "gives up podCidrs, azureVnetCleanup and manageForeign)" in line
    typed = re.fullmatch("echo '(.+)' [|] hostrouting (.+) [|] hostrouting (.+)", _command(line))
    assert typed
    text, repair, application = typed.groups()
    repaired = say(*repair.split(), host=host, stdin=text.encode())
    applied = say(*application.split(), host=host, stdin=repaired.out.encode())

    assert applied.code == 0
    assert json.loads(host.files.texts[LAYOUT.config_path])["hostRouting"] == before
    assert say("status", host=host).code == 0


@pytest.mark.parametrize("mode", ["STRICT", "WARN"])
def test_the_line_without_a_copy_where_the_check_is_lost_too(mode: str) -> None:
    """A full disk can take both. gate.sh still has the mode. The routes name the device that was
    meant, so they stay on it, even if Linux prefers the default route of another card.
    """
    settings = config(mode=mode)
    settings["staticRoutes"] = {
        "enabled": True,
        "routes": [{"destination": destination, "dev": "eth0"} for destination in REPAIR],
    }
    settings["routeOverlap"]["expectedDevs"] = ["eth0"]
    host = node(settings)
    before = json.loads(host.files.texts[LAYOUT.config_path])["hostRouting"]
    host.kernel.add_link(ETH1)
    host.kernel.add_address("eth1", "10.9.0.4/24")
    second = Route.to("0.0.0.0/0", dev="eth1", gateway="10.9.0.1", protocol=BY_HAND, metric=50)
    host.kernel.ip_route("add", second)
    host.files.texts[LAYOUT.config_path] = ""
    del host.files.texts[LAYOUT.step_path(LAYOUT.check_step)]

    [line] = [line for line in say("status", host=host).lines if ": echo " in line]
    assert "of the check, whose script is lost, too, all but the mode)" in line
    typed = re.fullmatch("echo '(.+)' [|] hostrouting (.+) [|] hostrouting (.+)", _command(line))
    assert typed
    text, repair, application = typed.groups()
    repair = repair.replace("CIDR", CIDR)
    repaired = say(*repair.split(), host=host, stdin=text.encode())
    applied = say(*application.split(), host=host, stdin=repaired.out.encode())

    assert applied.code == 0
    after = json.loads(host.files.texts[LAYOUT.config_path])["hostRouting"]
    assert after == before


def test_the_line_without_a_copy_does_not_guess_between_two_devices() -> None:
    """An expected device is one by which every pod may be reached."""
    settings = config(*REPAIR)
    routes = settings["staticRoutes"]["routes"]
    routes[0]["dev"] = "eth0"
    routes.append({"destination": "9.0.0.0/8", "dev": "ib0", "gateway": "172.16.1.1"})
    host = node(settings)
    host.files.texts[LAYOUT.config_path] = ""
    del host.files.texts[LAYOUT.step_path(LAYOUT.check_step)]
    [line] = [line for line in say("status", host=host).lines if ": echo " in line]
    assert "expectedDevs" not in line


def _command(line: str) -> str:
    """The command at the end of a line of a page."""
    return line.partition(", as root: ")[2]


def test_a_route_by_hand_beside_a_broken_file() -> None:
    """Where the file is broken, `check` does not say that a route should be in it."""
    host = escaping_node()
    type_routes(host, *REPAIR, protocol=BY_HAND)
    host.files.texts[LAYOUT.config_path] = "{"
    check = say("check", CIDR, host=host)
    assert check.lines[0].startswith("OK")
    assert "added by hand" not in check.out


@attrs.define
class PrivateFiles(FakeFiles):
    """Only root may enter the folder of hostrouting."""

    def look(self, path: str) -> Entry | None:
        """See FakeFiles."""
        if path.startswith(f"{LAYOUT.config_directory}/"):
            denied = f"cannot read {path}: Permission denied; run as root"
            raise HostError(denied, what="file", target=path, errno=errno.EACCES)
        return super().look(path)


@pytest.mark.parametrize("command", [f"check {CIDR}", "explain 172.16.5.9"])
def test_a_file_that_this_user_may_not_read(command: str) -> None:
    """Nothing is wrong with the file, so nothing but root is proposed."""
    host = node(config(*REPAIR))
    lose_routes(host)
    host = attrs.evolve(host, files=PrivateFiles(texts=host.files.texts))
    said = say(*command.split(), host=host)
    assert "OVERLAP: " in said.lines[0]
    page = said.out + said.err
    assert "Permission denied; run as root\n" in page
    assert "hostrouting remove" not in page
    assert "plan" not in page


def test_a_route_by_hand_beside_a_file_that_this_user_may_not_read() -> None:
    """The file may have the route, so nobody says that the next boot lacks it."""
    host = node(config(*REPAIR))
    lose_routes(host)
    type_routes(host, *REPAIR, protocol=BY_HAND)
    assert "ROUTE-NOT-CONFIGURED" not in say("check", CIDR, host=host).out
    host = attrs.evolve(host, files=PrivateFiles(texts=host.files.texts))
    check = say("check", CIDR, host=host)
    assert check.lines[0].startswith("OK")
    assert "Permission denied; run as root\n" in check.out
    assert "ROUTE-NOT-CONFIGURED" not in check.out


@pytest.mark.parametrize("words", ["check", "repair --commands"])
def test_the_repair_for_a_user_who_may_not_read_the_file(words: str) -> None:
    """Root types the repair, and is asked then whether it may take something away."""
    settings = json.dumps(config(*REPAIR)).encode()
    host = node(config(*REPAIR))
    lose_routes(host)
    host = attrs.evolve(host, files=PrivateFiles(texts=host.files.texts))
    said = say(*words.split(), "--config", "-", host=host, stdin=settings)
    page = said.out + said.err
    assert "as root" in page
    assert "hostrouting repair --config FILE | hostrouting apply --config -\n" in page
    assert "takes its place" not in page


def test_the_repair_by_another_file_keeps_the_gate() -> None:
    """Nothing but the drop-in says that kubelet is gated."""
    host = node(config(*REPAIR))
    lose_routes(host)
    garble(host)
    another = json.dumps({"routeOverlap": {"expectedCidrs": [CIDR]}}).encode()
    page = say("check", "--config", "-", host=host, stdin=another)
    apply_it = f"hostrouting apply --config - --allow-removal --gate {KUBELET}"
    assert f"  hostrouting repair --config FILE | {apply_it}" in page.lines


def test_status_of_a_user_who_may_not_read_the_file() -> None:
    """Whether the host matches is not known; that is not a broken file, and nothing is typed."""
    host = node(config(*REPAIR))
    host = attrs.evolve(host, files=PrivateFiles(texts=host.files.texts))
    status = say("status", host=host)
    assert status.code == 3
    assert status.lines[0].startswith("NO ANSWER: ")
    denied = f"FILE: cannot read {LAYOUT.config_path}: Permission denied; run as root"
    assert denied in status.lines
    assert "plan" not in status.out
    assert say("status", "--json", host=host).json["state"] == "unanswered"


def test_an_empty_pipe_points_to_the_command_before_it() -> None:
    """The last line of a failed `repair | apply` does not explain how to write JSON."""
    said = apply(node(config(*REPAIR)), "")
    assert said.code == 2
    assert "the command before the pipe" in said.err
    assert "double quotes" not in said.err


def test_explain_beside_a_broken_file_proposes_the_cidrs_of_the_scripts() -> None:
    """The warning is that of `status`: what is typed has nothing to fill in."""
    host = node(config(*REPAIR))
    garble(host)
    said = say("explain", "172.16.5.9", host=host)
    assert said.lines[0].startswith("OK: ")
    assert "| hostrouting repair --config - |" in said.err
    assert say("check", host=host).code == 2
