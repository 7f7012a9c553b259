"""The installed config.json is broken, emptied, or not to be read: the commands say how to get it
back, and what they can see without it.
"""

import pytest

from hostrouting.model.snapshot import Link
from hostrouting.testing import FakeHost
from tests.support.cli import say
from tests.support.incidents import GUARDED, KUBELET, apply, config, node, start_vpn
from tests.support.statuses import INCIDENTS, after, mark_packets, with_private_files
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


BROKEN = {
    "shut: config.json is broken": "/etc/hostrouting/config.json is not JSON: ",
    "shut: /etc/hostrouting is deleted": "/etc/hostrouting/config.json is missing, with all of ",
}


@pytest.mark.parametrize("name", BROKEN)
def test_typed_cidrs_where_the_configuration_is_unusable(name: str) -> None:
    """They are checked, and a warning names the file and the fault: on the page, in the document,
    and beside an explanation. Its remedy is to correct the file if it is there.
    """
    sentence = f"the installed configuration was not used: {BROKEN[name]}"
    host = INCIDENTS[name].make()
    assert say("check", CIDR, host=host).code == 0
    assert say("check", CIDR, "--fail-on", "warning", host=host).code == 1

    lose_routes(host)
    document = say("check", CIDR, "--json", host=host)
    assert document.json["verdict"] == "overlap"
    [warning] = [finding for finding in document.json["findings"] if finding["name"] == "file"]
    assert warning["sentence"].startswith(sentence)
    assert warning["severity"] == "warning"
    assert warning["target"] == LAYOUT.config_path

    page = say("check", CIDR, host=host)
    assert page.code == document.code == 1
    _, _, behind = page.out.partition(f"\nFILE: {sentence}")
    _, remedy, *_ = behind.splitlines()
    is_there = host.files.look(LAYOUT.config_path) is not None
    assert remedy.startswith(f"  correct {LAYOUT.config_path}") is is_there

    explained = say("explain", "172.16.5.9", host=host)
    assert explained.lines[0].startswith("OVERLAP: ")
    assert sentence in explained.err


def add_docker0(host: FakeHost) -> None:
    """Docker makes a bridge, whose network is in the expected one."""
    host.kernel.add_link(Link(name="docker0", index=0, kind="bridge"))
    host.kernel.add_address("docker0", "172.17.0.1/16")


@pytest.mark.parametrize("name", BROKEN)
def test_what_needs_the_configuration(name: str) -> None:
    """A check without typed CIDRs is refused. So is a repair, which would drop what is installed,
    and no page proposes one.
    """
    for change in (lose_routes, start_vpn, mark_packets, add_docker0):
        host = after(INCIDENTS[name].make, change)()
        page = say("check", "172.16.0.0/12", host=host)
        assert page.code in {1, 3}
        assert " repair " not in page.out
        for words in (["check"], ["repair", CIDR]):
            said = say(*words, host=host)
            assert said.code != 0
            assert said.out == ""
            assert LAYOUT.config_path in said.err


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
