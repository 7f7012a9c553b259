"""The installed config.json is broken, emptied, of another release, or not to be read: the commands
say how to get it back, and what they can see without it.
"""

import json

import pytest

from tests.support.cli import say
from tests.support.incidents import GUARDED, KUBELET, apply, config, node
from tests.support.statuses import with_private_files
from tests.support.tasks import CIDR, LAYOUT, REPAIR, lose_routes


@pytest.mark.parametrize("text", ["{}", '{"hostRouting": {"azureVnetCleanup": null}}', ""])
def test_an_emptied_file_does_not_mean_that_nothing_is_installed(text: str) -> None:
    """`status` says that the gate is shut, as where the file is missing, and `apply` refuses the
    text.
    """
    host = node(config(*REPAIR, guard=GUARDED))
    host.files.texts[LAYOUT.config_path] = text

    status = say("status", host=host)
    assert status.code == 2
    assert status.lines[0].startswith("SHUT: ")
    assert f"  {KUBELET} runs, and no note says whether its start was checked" in status.lines
    assert f"  {LAYOUT.guard_unit} runs, and is enabled" in status.lines
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
        "config.json was written by hostrouting 0.9, but this is" in line for line in status.lines
    )
    assert say("check", host=host).err.count("is not a device pattern") == 5


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"hostRouting": {"routeOverlap": {"mode": 1}}}',
        '{"writtenBy": null, "hostRouting": {"routeOverlap": {"mode": 1}}}',
    ],
    ids=["nested deeply", "without a writer", "not a name"],
)
def test_a_file_that_does_not_say_who_wrote_it(text: str) -> None:
    """Nothing is said about the release: it is somebody's edit."""
    host = node(config(*REPAIR))
    host.files.texts[LAYOUT.config_path] = text
    status = say("status", host=host)
    assert status.lines[0].startswith("SHUT: ")
    assert "was written by" not in status.out


@pytest.mark.parametrize("command", [f"check {CIDR}", "explain 172.16.5.9"])
def test_a_file_that_this_user_may_not_read(command: str) -> None:
    """Nothing is wrong with the file, so nothing but root is proposed."""
    host = node(config(*REPAIR))
    lose_routes(host)
    host = with_private_files(host)
    said = say(*command.split(), host=host)
    assert "OVERLAP: " in said.lines[0]
    page = said.out + said.err
    assert "Permission denied; run as root\n" in page
    assert "hostrouting remove" not in page
    assert "plan" not in page


def test_an_empty_pipe_points_to_the_command_before_it() -> None:
    """The last line of a failed `repair | apply` does not explain how to write JSON."""
    said = apply(node(config(*REPAIR)), "")
    assert said.code == 2
    assert "the command before the pipe" in said.err
    assert "double quotes" not in said.err
