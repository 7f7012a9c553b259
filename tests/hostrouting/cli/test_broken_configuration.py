"""The installed config.json is emptied."""

import pytest

from tests.support.cli import say
from tests.support.incidents import GUARDED, KUBELET, apply, config, node
from tests.support.tasks import LAYOUT, REPAIR


@pytest.mark.parametrize("text", ["{}", '{"hostRouting": {"azureVnetCleanup": null}}', ""])
def test_an_emptied_file_does_not_mean_that_nothing_is_installed(text: str) -> None:
    """`status` says that the gate is shut, and `apply` refuses the text."""
    host = node(config(*REPAIR, guard=GUARDED))
    host.files.texts[LAYOUT.config_path] = text

    status = say("status", host=host)
    assert status.code == 2
    assert status.lines[0].startswith("DIFFERS: ")
    assert f"  {KUBELET} runs" in status.lines
    assert f"  {LAYOUT.guard_unit} runs" in status.lines

    refused = apply(host, text)
    assert refused.code == 2
    assert "{}" not in refused.out + refused.err
    assert host.files.texts[LAYOUT.config_path] == text
