"""The state file of azure-vnet."""

from __future__ import annotations

import json
from ipaddress import ip_address

import pytest

from hostrouting.tasks.azure_vnet import Endpoint, StateFileUnreadable, read_state

ENDPOINT = {
    "HostIfName": "azv1",
    "MacAddress": "AgAAAAAF",
    "IPAddresses": [{"IP": "10.240.0.5", "Mask": "//8AAA=="}, {"IP": "fd00:1::5", "Mask": "/w=="}],
}


def state(endpoints: object) -> str:
    """A state file with these endpoints."""
    network = {"Networks": {"azure": {"Endpoints": endpoints}}}
    return json.dumps({"Network": {"Version": "v1", "ExternalInterfaces": {"eth0": network}}})


def test_its_endpoints() -> None:
    """Each endpoint has a device and addresses of both families."""
    ips = (ip_address("10.240.0.5"), ip_address("fd00:1::5"))
    assert read_state(state({"a-eth0": ENDPOINT})) == (Endpoint("a-eth0", "azv1", ips),)


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        '{"Network": null}',
        '{"Network": {"ExternalInterfaces": null}}',
        '{"Network": {"ExternalInterfaces": {"eth0": {"Networks": null}}}}',
        state(None),
    ],
)
def test_what_is_empty(text: str) -> None:
    """azure-vnet writes null for empty objects; such a file has no pods."""
    assert read_state(text) == ()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "not JSON, or is truncated"),
        (state({"a": ENDPOINT})[:-9], "not JSON, or is truncated"),
        ("[]", "the document is not a JSON object"),
        (state([]), "Endpoints is not a JSON object"),
        (state({"a": {**ENDPOINT, "IPAddresses": [{"IP": "ten"}]}}), "the endpoint 'a' has an invalid address"),
        (state({"a": {**ENDPOINT, "HostIfName": 7}}), "the endpoint 'a' does not have HostIfName"),
    ],
)
def test_what_is_not_a_state_file(text: str, why: str) -> None:
    """A file that is truncated, or is a different file, is an error, because a live pod may be missing from it."""
    with pytest.raises(StateFileUnreadable, match=why):
        read_state(text)
