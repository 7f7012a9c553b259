"""Tables of tests as text, and routes in the words in which `ip route` prints them."""

from typing import Any

import pytest

from hostrouting.model.prefix import Prefix, as_ip
from hostrouting.model.route import OURS, ROUTE_TYPES, NextHop, Route

_FLAGS = {"onlink", "dead", "linkdown"}
_NUMBERS = {"table": "table", "metric": "metric", "tos": "tos", "scope": "scope"}
_NUMBERS |= {"mtu": "mtu", "advmss": "advmss", "nhid": "nexthop_id"}


def text_rows(text: str) -> pytest.MarkDecorator:
    """A test for each line, with the argument `row`: its parts, which `|` separates. A line that
    begins with # is a comment.
    """
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    split = [[part.strip() for part in line.split("|")] for line in lines]
    return pytest.mark.parametrize("row", split, ids=[" ".join(line.split()) for line in lines])


def routes_of(text: str) -> list[Route]:
    """The routes of a text in which semicolons separate them."""
    return [route_of(each) for each in text.split(";") if each.strip()]


def route_of(text: str) -> Route:
    """A route such as `default via 10.0.0.1 dev eth0 metric 100`, or with several `nexthop`. What
    `ip` does not print as one word is written as one: `proto ours`, `expired`, `expires`.
    """
    head, *more = text.split("nexthop")
    words = head.split()
    type_: Any = words.pop(0) if words[0] in ROUTE_TYPES else "unicast"
    prefix = Prefix.parse(words.pop(0).replace("default", "0.0.0.0/0"))
    fields: dict[str, Any] = {}
    of_hop: list[str] = []
    while words:
        word = words.pop(0)
        if word in {"expired", "expires"}:
            fields["expired"] = word == "expired"
        elif word in _NUMBERS:
            fields[_NUMBERS[word]] = int(words.pop(0), 0)
        elif word == "proto":
            owner = words.pop(0)
            fields["protocol"] = OURS if owner == "ours" else int(owner)
        elif word == "from":
            fields["source"] = Prefix.parse(words.pop(0))
        elif word == "src":
            fields["prefsrc"] = as_ip(words.pop(0))
        elif word == "pref":
            fields["preference"] = words.pop(0)
        else:
            of_hop.append(word)
    hops = tuple(map(_hop_of, filter(None, [of_hop, *map(str.split, more)])))
    if len(hops) == 1 and "scope" not in fields:  # that of a route without a gateway
        fields["scope"] = Route.to(prefix, dev="x", gateway=hops[0].gateway).scope
    return Route(prefix, hops, type=type_, **fields)


def _hop_of(words: list[str]) -> NextHop:
    """A next hop; each word that is not a flag has a value behind it."""
    flags = dict.fromkeys(_FLAGS.intersection(words), True)
    rest = [word for word in words if word not in _FLAGS]
    values = dict(zip(rest[::2], rest[1::2], strict=True))
    gateway = as_ip(values["via"]) if "via" in values else None
    return NextHop(values.get("dev"), gateway, int(values.get("weight", "1")), **flags)
