"""Laws of the configuration, each under the sentence of the specification that it checks."""

import json
from collections.abc import Callable
from typing import Any

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st

from hostrouting.config import azure_vnet, probe_rewrite
from hostrouting.config import settings as sections
from hostrouting.config.settings import HostRoutingConfig, StaticRoute, StaticRoutesConfig
from hostrouting.errors import ConfigError
from tests.support.config_strategies import configs, json_values, near_routes, scalars


def faults_of(read: Callable[[], object]) -> tuple[tuple[str, str, str, str], ...]:
    """Every fault found by reading, after checking that each is complete; () if it succeeds."""
    refusal = None
    try:
        read()
    except ConfigError as error:
        refusal = error
    if refusal is None:
        return ()
    assert refusal.faults
    for fault in refusal.faults:
        assert fault.path
        assert fault.rule
        assert str(fault).isascii()
        assert str(fault).isprintable()
        assert str(fault) in str(refusal)
    return tuple(attrs.astuple(fault) for fault in refusal.faults)


# "to_json gives back what from_json reads"


@given(configs())
def test_json_there_and_back(config: HostRoutingConfig) -> None:
    """A configuration survives its own JSON, alone and inside an agent's larger file."""
    assert HostRoutingConfig.from_json(config.to_json()) == config
    assert HostRoutingConfig.from_json(config.to_json(indent=None).encode()) == config
    assert HostRoutingConfig.from_mapping({"hostRouting": config.to_mapping(), "other": 1}) == config


def test_every_field_is_drawn() -> None:
    """The strategy draws several values of each field of each class, so that the laws here are about all of them."""
    seen: dict[tuple[type, str], set[str]] = {}

    @settings(max_examples=200, derandomize=True, database=None)
    @given(configs())
    def look(config: HostRoutingConfig) -> None:
        left: list[Any] = [config]
        while left:
            value = left.pop()
            left += value if isinstance(value, tuple) else []
            for name in attrs.fields_dict(type(value)) if attrs.has(type(value)) else ():
                left.append(getattr(value, name))
                seen.setdefault((type(value), name), set()).add(str(left[-1]))

    look()
    named = {**vars(sections), **vars(probe_rewrite), **vars(azure_vnet)}.values()
    classes = {
        it for it in named if isinstance(it, type) and attrs.has(it) and it.__module__.startswith("hostrouting.config.")
    }
    assert {key for key, values in seen.items() if len(values) > 1} == {
        (cls, field.name) for cls in classes for field in attrs.fields(cls) if field.eq
    }


@given(configs(), configs())
def test_what_differs_is_written_otherwise(one: HostRoutingConfig, other: HostRoutingConfig) -> None:
    """Two configurations are equal exactly if their JSON is."""
    assert (one == other) is (one.to_mapping() == other.to_mapping())
    assert hash(one) == hash(HostRoutingConfig.from_json(one.to_json()))


@given(configs())
def test_repr(config: HostRoutingConfig) -> None:
    """A section shows all of its settings, in the order of its fields. Kills: a repr without the defaults."""
    for section in (config, config.static_routes, config.route_overlap, config.probe_rewrite):
        names = [field.name for field in attrs.fields(type(section)) if field.eq]
        shown = ", ".join(f"{name}={getattr(section, name)!r}" for name in names)
        assert repr(section) == f"{type(section).__name__}({shown})"


@given(json_values())
def test_what_was_read_is_read_again(value: Any) -> None:
    """If a document can be read, writing and reading the result gives the same configuration."""
    try:
        config = HostRoutingConfig.from_mapping(value)
    except ConfigError:
        return
    assert HostRoutingConfig.from_json(config.to_json()) == config


# "any JSON value at all given to the config reader either yields a config or a ConfigError whose every fault
# has a path, and never another exception"


@given(json_values())
def test_any_json_value(value: Any) -> None:
    """Any JSON value is a configuration or has faults, the same ones as text and as a mapping."""
    text = json.dumps(value)
    assert faults_of(lambda: HostRoutingConfig.from_json(text)) == faults_of(
        lambda: HostRoutingConfig.from_mapping(value)
    )


@given(st.text() | st.text('{}[]",:0123456789eE.-+ntfau \\\n'))
def test_any_text(text: str) -> None:
    """Any text is a configuration or has faults."""
    faults_of(lambda: HostRoutingConfig.from_json(text))


@given(st.binary() | json_values().map(lambda value: json.dumps(value).encode("utf-16")))
def test_any_bytes(data: bytes) -> None:
    """Any bytes are a configuration or have faults."""
    faults_of(lambda: HostRoutingConfig.from_json(data))


@given(configs(), st.data())
def test_any_damage(config: HostRoutingConfig, data: st.DataObject) -> None:
    """A configuration's text with a part removed is a configuration or has faults."""
    text = config.to_json()
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    faults_of(lambda: HostRoutingConfig.from_json(text[:start] + text[end:]))


# "everything is checked at construction"


@given(near_routes(scalars().filter(lambda value: value is not None)))
def test_constructors_refuse_in_the_same_words(fields: dict[str, Any]) -> None:
    """A constructor refuses what a file refuses, with the same message."""
    document = {"staticRoutes": {"enabled": True, "routes": [fields]}}
    from_file = faults_of(lambda: HostRoutingConfig.from_mapping(document))
    from_python = faults_of(lambda: StaticRoute(**{"destination": fields["destination"], **fields}))
    prefix = "staticRoutes.routes[0]."
    assert sorted(from_file) == sorted((prefix + path, *rest) for path, *rest in from_python)


# "two entries with one destination and metric → fault naming both"


@given(configs(), st.data())
def test_a_route_may_not_be_given_twice(config: HostRoutingConfig, data: st.DataObject) -> None:
    """A second entry with the same destination and metric is the only fault, whatever its other fields."""
    routes = config.static_routes.routes
    if not routes:
        return
    again = attrs.evolve(data.draw(st.sampled_from(routes)), gateway=None, dev="other")
    (fault,) = faults_of(lambda: StaticRoutesConfig(enabled=True, routes=(*routes, again)))
    first = next(
        index
        for index, route in enumerate(routes)
        if (route.destination, route.metric) == (again.destination, again.metric)
    )
    assert fault[0] == f"routes[{len(routes)}]"
    assert f"routes[{first}]" in fault[2]
