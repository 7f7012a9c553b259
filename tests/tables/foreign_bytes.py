"""Each reader of bytes that others wrote: what it may raise, and inputs that it accepts.

`make fuzz` searches for an input that makes one fail otherwise; a test gives each its inputs and what is cut off from them.
"""

import os
from collections.abc import Callable, Sequence

import attrs

from hostrouting.boot.gate_files import parse_gate_steps
from hostrouting.boot.gate_state import parse_openings
from hostrouting.boot.installed import _parse_cleanup
from hostrouting.boot.probe import ProbeScript, parse_probe_script, render_probe_script
from hostrouting.boot.scripts import (
    parse_check_script,
    parse_static_routes_script,
    render_check_script,
    render_static_routes_script,
)
from hostrouting.boot.units import parse_extension, parse_guard_unit, parse_protocol_numbers, render_guard_unit
from hostrouting.check.report import CHECK_SCHEMA, document_in, escapes_in, marked_verdict
from hostrouting.cli.commands.clean import _approved
from hostrouting.config.probe_rewrite import ProbeRewriteConfig
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.errors import HostRoutingError
from hostrouting.host.conflists import files_in_force, read_conflists
from hostrouting.host.saved import snapshot_in
from hostrouting.tasks.cleanup.azure_vnet import read_state
from hostrouting.tasks.cleanup.plan import UndoLog
from hostrouting.tasks.cleanup.saved_rules import read_saved
from hostrouting.tasks.probe_rewrite.rules import Record
from hostrouting.testing.topologies import h200
from tests.support.config_keys import COMPLETE


@attrs.frozen
class Reader:
    """One reader, the errors by which it refuses its input, and inputs that it accepts."""

    read: Callable[[bytes], object]
    refuses: tuple[type[Exception], ...] = (HostRoutingError,)
    seeds: Sequence[bytes] = ()


def _text(read: Callable[[str], object]) -> Callable[[bytes], object]:
    """The reader of a text, which is read as Python reads a file or the output of a program."""
    return lambda data: read(data.decode("utf-8", "surrogateescape"))


_SNAPSHOT = h200().snapshot().to_json().encode()
_CONFIG = b"""{"hostRouting": {"staticRoutes": {"enabled": true, "routes": [{"destination": "172.16.0.0/17", "gateway": "10.0.0.1",
"dev": "eth0", "metric": 4}]}, "routeOverlap": {"expectedCidrs": ["172.16.0.0/16", "fd00::/8"], "mode": "STRICT",
"intendedRules": [{"rule": "fwmark 0x1", "reason": "storage"}]}}}"""
_PARSED = HostRoutingConfig.from_json(_CONFIG)
_COMPLETE = HostRoutingConfig.from_mapping(COMPLETE).to_json(indent=None).encode()
_STATE = (
    b'{"Network": {"ExternalInterfaces": {"eth0": {"Networks": {"azure": {"Endpoints": {"1": {"HostIfName": "azv1",'
    b' "MacAddress": "qrvM3e7/", "IPAddresses": [{"IP": "10.240.0.9", "Mask": "//8AAA=="}]}}}}}}}}'
)
_EBTABLES = b"*nat\n:PREROUTING ACCEPT\n-A PREROUTING -p ARP --arp-op Request --arp-ip-dst 10.240.0.9 -j arpreply --arpreply-mac aa:bb:cc:dd:ee:ff --arpreply-target DROP\n"
_UNDO = b"ebtables -t nat -A PREROUTING -p IPv4 -i eth0 --ip-dst 10.240.0.9 -j dnat --to-dst aa:bb:cc:dd:ee:ff --dnat-target ACCEPT\nip neigh add 10.240.0.9 lladdr aa:bb:cc:dd:ee:ff dev azure0 nud permanent\nip -4 route add 10.240.0.9/32 dev azv1 table 254 proto 3 scope 253 metric 0\n"
_PLAN = (
    b'{"schema": "hostrouting/clean/2", "action": "plan", "host": "h", "boot": "b", "entries": [{"kind": "route",'
    b' "spec": "10.240.0.9 dev azv1", "fate": "delete", "reason": "gone"}]}'
)


def _block(script: str) -> bytes:
    """The settings of a script, without what is the same in each."""
    begin = script.index("configuration=(\n")
    return script[begin : script.index("\n)\n", begin) + 3].encode()


def _through_a_file(read: Callable[[str], object]) -> Callable[[bytes], object]:
    """The reader of a file that is named."""
    file = os.memfd_create("foreign")

    def read_file(data: bytes) -> object:
        os.ftruncate(file, 0)
        os.pwrite(file, data, 0)
        return read(f"/proc/self/fd/{file}")

    return read_file


READERS = {
    "configuration": Reader(HostRoutingConfig.from_json, seeds=[_CONFIG, _COMPLETE]),
    "snapshot": Reader(snapshot_in, seeds=[_SNAPSHOT]),
    "saved-rules": Reader(_text(read_saved), seeds=[_EBTABLES]),
    "conflist": Reader(
        _text(lambda text: files_in_force(read_conflists(["10-a.conflist"], lambda _name: text))),
        seeds=[b'{"cniVersion": "0.3.0", "name": "azure", "plugins": [{"type": "azure-vnet", "mode": "bridge"}]}'],
    ),
    "state": Reader(_text(read_state), (ValueError,), [_STATE]),
    "undo": Reader(_text(UndoLog.parse), (ValueError,), [_UNDO]),
    "record": Reader(
        _text(Record.parse), seeds=[b"table hostrouting_slb\nroute 2603:1062:0:1::1 protocol 213\n\ntable ip6 x {}"]
    ),
    "steps": Reader(_text(parse_gate_steps), (ValueError,), [b"50 requires static-routes\nend\n"]),
    "routes-script": Reader(
        _text(parse_static_routes_script), (ValueError,), [_block(render_static_routes_script(_PARSED))]
    ),
    "check-script": Reader(_text(parse_check_script), (ValueError,), [_block(render_check_script(_PARSED))]),
    "probe-script": Reader(
        _text(parse_probe_script),
        (ValueError,),
        [_block(render_probe_script(ProbeScript(ProbeRewriteConfig(enabled=True, interfaces=["eth0"]))))],
    ),
    "guard-unit": Reader(_text(parse_guard_unit), (ValueError,), [render_guard_unit("/usr/bin/hostrouting").encode()]),
    "cleanup": Reader(_text(_parse_cleanup), (ValueError,), [b'{"settings": {"managed": ["10.240.0.0/16"]}}']),
    "openings": Reader(_text(parse_openings), (ValueError,), [b"1700000000 kubelet.service root a test\n"]),
    "extension": Reader(_text(parse_extension), (ValueError,), [b'{"settings": {"rails": [0]}}']),
    "protocols": Reader(_text(parse_protocol_numbers), (ValueError,), [b"213 hostrouting\n"]),
    "marker": Reader(_text(marked_verdict), (), [b"undecided\n", b"OVERLAP: 172.16.0.0/16\n"]),
    "document": Reader(
        _text(lambda text: escapes_in(document_in(text, CHECK_SCHEMA))),
        (),
        [b'{"schema": "hostrouting/check/3", "findings": [{"name": "overlap"}]}'],
    ),
    "approved": Reader(_through_a_file(_approved), seeds=[_PLAN]),
}
