"""The judgement of one snapshot among many is that of `hostrouting check --snapshot`, and can be sent; snapshots that are there more than once."""

import json
import os
import pickle
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostrouting.config.settings import HostRoutingConfig
from hostrouting.fleet import judge as repeats
from hostrouting.fleet.judge import Question, count_repeated, digest_of, judge, judge_each
from hostrouting.host.saved import snapshot_bytes
from hostrouting.model.route import Route
from hostrouting.model.rule import Rule
from hostrouting.model.snapshot import Link
from hostrouting.testing import FakeKernel, cni_node, ecmp_node, h200, plain_vm, vpn_node
from tests.support.cli import say
from tests.support.fleets import ASKED, CIDR, config_of
from tests.support.topologies import refusing


def alone(data: bytes, config: HostRoutingConfig, folder: Path, *words: str) -> tuple[int, Any]:
    """What `check --snapshot` says of it: the exit code and the document."""
    path = folder / "config.json"
    path.write_text(json.dumps(config.to_mapping()))
    said = say("check", "--snapshot", "-", "--config", str(path), "--json", *words, stdin=data)
    return said.code, said.json


def marking() -> FakeKernel:
    """A host where a rule sends packets with a mark elsewhere."""
    kernel = plain_vm()
    kernel.add_link(Link(name="eth1", index=0))
    kernel.add_rule(Rule(family=4, priority=100, fwmark=0x10, fwmask=0x10, table=100))
    kernel.ip_route("add", Route.to("0.0.0.0/0", dev="eth1", table=100))
    return kernel


NODES: dict[str, tuple[Callable[[], FakeKernel], HostRoutingConfig]] = {
    "h200": (h200, config_of()),
    "dual stack": (lambda: h200(dual_stack=True), config_of(CIDR, "fd16::/48")),
    "half": (lambda: h200(dual_stack=False), config_of(CIDR, "fd16::/48")),
    "vm": (plain_vm, config_of()),
    "vpn": (vpn_node, config_of()),
    "ecmp": (ecmp_node, config_of(mode="STRICT")),
    "cni": (cni_node, config_of("10.244.0.0/16")),
    "refusing": (refusing, config_of()),
    "marking": (marking, config_of()),
    "pods": (cni_node, config_of(podCidrs=["10.244.0.0/24"])),
    "nothing": (FakeKernel, config_of()),
}


@pytest.mark.parametrize("name", NODES)
def test_the_same_judgement(name: str, tmp_path: Path) -> None:
    """The document of a node is what the check of this snapshot alone prints; result and question can be sent."""
    make, config = NODES[name]
    data = make().snapshot().to_json().encode()
    asked = Question(config)
    result = judge(data, asked)
    assert pickle.loads(pickle.dumps((result, asked))) == (result, asked)  # noqa: S301  our own bytes
    assert len(pickle.dumps(result)) < 8192
    code, document = alone(data, config, tmp_path)
    assert json.loads(result.answer) == document
    assert "\n" not in result.answer
    assert {"ok": 0, "overlap": 1, "undecided": 3, "no-default-route": 3}[str(result.verdict)] == code


@pytest.mark.parametrize(
    "data",
    [b"", b" \n", b"{", b"\xff", b"[]", b'{"schema": "hostrouting/snapshot/1", "links": 7}', b"[" * 100_000],
    ids=["empty", "blank", "cut", "latin", "list", "fault", "deep"],
)
def test_the_same_error(data: bytes, tmp_path: Path) -> None:
    """A file that is not a snapshot is refused with the same words as by the check of this file alone."""
    [result] = judge_each([data], ASKED)
    (tmp_path / "node.json").write_bytes(data)
    said = say("check", "--snapshot", str(tmp_path / "node.json"), CIDR, "--json")
    named = attrs.evolve(result, path=str(tmp_path / "node.json"))
    assert said.code == 2
    assert str(named.error) == said.json["message"]
    assert type(named.error).__name__ == said.json["error"]


def test_what_escapes() -> None:
    """An escape is reported with its range and devices, and a doubt by its name."""
    [escape] = judge(h200().snapshot().to_json().encode(), Question(config_of("172.0.0.0/8"))).escapes
    assert (str(escape.cidr), escape.kind, escape.devs, escape.is_whole) == ("172.0.0.0/8", "overlap", ("ib0",), False)
    marked = judge(marking().snapshot().to_json().encode(), ASKED)
    assert (marked.verdict, marked.escapes, marked.doubts) == ("undecided", (), ("other-packets",))
    lost = judge(FakeKernel().snapshot().to_json().encode(), ASKED)
    assert (lost.escapes, lost.without_default) == ((), (4,))


# Which snapshots are there more than once


@given(st.lists(st.sampled_from([b"", b"a", b"b", b"ab", b"ba", b"abc"])))
def test_how_often(tmp_path_factory: pytest.TempPathFactory, contents: list[bytes]) -> None:
    """For all bytes that more than one file has, and for no others, there is the number of files."""
    folder = tmp_path_factory.mktemp("files")
    paths = [str(folder / str(number)) for number in range(len(contents))]
    for path, data in zip(paths, contents, strict=True):
        with open(path, "wb") as stream:
            stream.write(data)
    counted = {digest_of(data): count for data, count in Counter(contents).items() if count > 1}
    assert count_repeated(paths) == counted


def test_what_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only files of equal size are read; pipes, directories and missing files are not."""
    for name, text in {"one": "1", "other": "2", "longer": "33"}.items():
        (tmp_path / name).write_text(text)
    os.mkfifo(tmp_path / "pipe")
    read: list[str] = []

    def reading(path: str) -> bytes:
        read.append(os.path.basename(path))
        return b""

    monkeypatch.setattr(repeats, "snapshot_bytes", reading)
    names = ["one", "longer", "other", "pipe", "gone", "."]
    count_repeated([*(str(tmp_path / name) for name in names), "a\0b"])
    assert read == ["one", "other"]


def test_a_file_that_goes_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that cannot be read is equal to no other; its result has the error."""
    for name in ("one", "other", "gone"):
        (tmp_path / name).write_text("same")

    def reading(path: str) -> bytes:
        (tmp_path / "gone").unlink(missing_ok=True)
        return snapshot_bytes(path)

    monkeypatch.setattr(repeats, "snapshot_bytes", reading)
    assert count_repeated(str(tmp_path / name) for name in ("one", "gone", "other")) == {digest_of(b"same"): 2}
