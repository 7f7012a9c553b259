"""The lines of `ip -batch` that tests/tables/fields has, as links, addresses, routes and rules of the library."""

from collections.abc import Iterable, Iterator
from typing import Any, cast

import attrs

from hostrouting.model.prefix import Prefix, as_ip
from hostrouting.model.route import Route, RouteType
from hostrouting.model.rule import Rule
from hostrouting.model.snapshot import Address, Link

_PROTOCOLS = {"kernel": 2, "boot": 3, "static": 4, "ra": 9, "bird": 12, "dhcp": 16}
_TABLES = {"default": 253, "main": 254, "local": 255}
_SCOPES = {"global": 0, "link": 253, "host": 254}
_TYPES = {"blackhole", "unreachable", "prohibit"}


def things(text: str) -> tuple[Link | Address | Route | Rule, ...]:
    """What these lines add, in order. KeyError or ValueError for words that no field needed so far."""
    return tuple(_read(text.strip().splitlines()))


def _read(lines: Iterable[str]) -> Iterator[Link | Address | Route | Rule]:
    for line in lines:
        kind, verb, *words = line.split()
        if verb != "add":
            raise ValueError(f"{line}: only what is added")
        if kind == "link":
            yield Link(name=words[0], index=0, kind=words[words.index("type") + 1])
        elif kind == "address":
            ip, _, length = words[0].partition("/")
            yield Address(ip=as_ip(ip), length=int(length), dev=words[words.index("dev") + 1])
        else:
            yield (_route if kind == "route" else _rule)(words)


def _route(words: list[str]) -> Route:
    kind = words.pop(0) if words[0] in _TYPES else "unicast"
    to, said = words[0], _pairs([word for word in words[1:] if word != "onlink"])
    route = Route.to(
        Prefix.parse({"default": "0.0.0.0/0"}.get(to, to)),
        dev=said.get("dev"),
        gateway=said.pop("via", None),
        metric=int(said.get("metric", 0)),
        table=_number(said.get("table", "main"), _TABLES),
        protocol=_number(said.get("proto", "boot"), _PROTOCOLS),
        type=cast("RouteType", kind),
        scope=_SCOPES[said["scope"]] if "scope" in said else None,
    )
    if "onlink" in words:
        route = attrs.evolve(route, legs=(attrs.evolve(route.legs[0], onlink=True),))
    return attrs.evolve(route, prefsrc=as_ip(said["src"])) if "src" in said else route


def _rule(words: list[str]) -> Rule:
    action = next((word for word in words if word in _TYPES), "to_table")
    said = _pairs([word for word in words if word not in {"not", action}])
    mark, _, mask = said.get("fwmark", "0").partition("/")
    ends = {name: Prefix.parse(said[name]) for name in ("from", "to") if name in said}
    suppressed = said.get("suppress_prefixlength")
    return Rule(
        family=next((prefix.family for prefix in ends.values()), 4),
        priority=int(said["pref"]),
        action=cast("Any", action),
        table=_number(said["lookup"], _TABLES) if "lookup" in said else 0,
        invert="not" in words,
        src=ends.get("from"),
        dst=ends.get("to"),
        fwmark=int(mark, 0),
        fwmask=int(mask, 0) if mask else 0xFFFFFFFF * bool(int(mark, 0)),
        suppress_prefixlength=None if suppressed is None else int(suppressed),
        protocol=3,
    )


def _pairs(words: list[str]) -> dict[str, str]:
    known = {"via", "dev", "metric", "proto", "scope", "table", "src", "pref", "lookup", "from", "to", "fwmark"}
    found = dict(zip(words[::2], words[1::2], strict=True))
    if unknown := {*found} - known - {"suppress_prefixlength"}:
        raise ValueError(f"{sorted(unknown)} in {' '.join(words)}")
    return found


def _number(text: str, names: dict[str, int]) -> int:
    return names[text] if text in names else int(text)
