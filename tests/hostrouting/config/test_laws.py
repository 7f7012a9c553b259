"""Laws of the configuration, each under the sentence of the specification that it checks."""

import json
from collections.abc import Callable, Iterator
from typing import Any

from hypothesis import given, strategies as st

from hostrouting.config.settings import HostRoutingConfig
from hostrouting.errors import ConfigError, Fault
from tests.support.configs import configs, networks

NETWORKS = networks().map(str) | st.sampled_from(
    ["::/0", "fe80::1", " 10.0.0.0/8", "10.0.0.0/08", "10.0.0.1/8", "10/8"]
)
"""Texts that look like a network, but often are not valid."""
SCALARS = st.one_of(
    *(st.none(), st.booleans(), st.integers(), st.floats(), NETWORKS),
    st.text(st.characters(), max_size=20),  # includes lone surrogates, which JSON can express
    st.sampled_from(
        ["", "WARN", "strict", "10.0.0.1", "eth0", "eth0;reboot", "\u017ftrict", "\x1b[2J"]
    ),
)
ANYTHING = st.recursive(
    SCALARS,
    lambda parts: (
        st.lists(parts, max_size=4)
        | st.dictionaries(
            st.sampled_from(["hostRouting", "routes"]) | st.text(max_size=5), parts, max_size=5
        )
    ),
    max_leaves=12,
)


def places_in(
    document: Any, path: tuple[object, ...] = ()
) -> Iterator[tuple[tuple[object, ...], Any]]:
    """The path of each value that has no parts, with the object or list that has it."""
    keys = document if isinstance(document, dict) else range(len(document))
    for key in keys:
        part = document[key]
        if part and isinstance(part, dict | list):
            yield from places_in(part, (*path, key))
        else:
            yield (*path, key), document


@st.composite
def near_configs(draw: st.DrawFn) -> Any:
    """A configuration, alone or in an agent's file, in which some values are replaced."""
    document = draw(configs()).to_mapping()
    places = [*places_in(document)]
    for _ in range(draw(st.integers(0, 3 if places else 0))):
        path, holder = draw(st.sampled_from(places))
        holder[path[-1]] = draw(ANYTHING)
    return draw(st.sampled_from([document, {"hostRouting": document, "agent": {"name": "node-1"}}]))


def faults_of(read: Callable[[], object]) -> tuple[Fault, ...]:
    """Every fault found by reading, after checking that each is complete; () if it succeeds."""
    faults: tuple[Fault, ...] = ()
    try:
        read()
    except ConfigError as error:
        faults = error.faults
    for fault in faults:
        assert fault.rule, fault
        assert str(fault).isascii(), fault
        assert str(fault).isprintable(), fault
    return faults


# "what is written reads back as the same"


@given(configs())
def test_json_there_and_back(config: HostRoutingConfig) -> None:
    """A configuration survives its own JSON, alone and inside an agent's larger file."""
    text = json.dumps(config.to_mapping())
    assert HostRoutingConfig.from_json(text) == HostRoutingConfig.from_json(text.encode()) == config
    of_an_agent = {"hostRouting": config.to_mapping(), "other": 1}
    assert HostRoutingConfig.from_mapping(of_an_agent) == config
    assert config._replace() == config  # it reads each value again
    assert hash(HostRoutingConfig.from_json(text)) == hash(config)


# "all faults at once, each with its path"


@given(configs(), st.data())
def test_every_fault_is_found_at_once(config: HostRoutingConfig, data: st.DataObject) -> None:
    """One reading names all wrong values and misspelt keys."""
    document = config.to_mapping()
    each = st.sampled_from([*places_in(document), (("manageForeign",), document)])
    places = data.draw(st.lists(each, min_size=1, max_size=9, unique_by=lambda place: place[0]))
    for path, holder in places:
        holder[path[-1]] = 0.5  # no setting can have it
    document["odd"] = 1
    expected = {"hostRouting.odd"}
    for path, _ in places:
        keys = [f"[{key}]" if isinstance(key, int) else f".{key}" for key in path]
        expected.add(f"hostRouting{''.join(keys)}")
    faults = faults_of(lambda: HostRoutingConfig.from_mapping({"hostRouting": document}))
    # There may be more: without a valid dev, a link-local gateway has a fault, too.
    assert expected <= {path for path, *_ in faults}


# "a random document never raises anything but ConfigError"


@given(ANYTHING | near_configs())
def test_any_json_value(value: Any) -> None:
    """It is a configuration that survives its JSON, or has the same faults as text and mapping."""
    text = json.dumps(value)
    faults = faults_of(lambda: HostRoutingConfig.from_json(text))
    assert faults == faults_of(lambda: HostRoutingConfig.from_mapping(value))
    if not faults:
        config = HostRoutingConfig.from_mapping(value)
        assert HostRoutingConfig.from_json(json.dumps(config.to_mapping())) == config


@given(st.text('{}[]",:0123456789eE.-+ntfau \\\n') | st.text() | st.binary())
def test_any_text(text: str | bytes) -> None:
    faults_of(lambda: HostRoutingConfig.from_json(text))
