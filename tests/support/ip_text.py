"""Tables of tests as text, and routes and rules in the words in which `ip` prints them."""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from hostrouting.model.prefix import Prefix, as_ip
from hostrouting.model.route import OURS, ROUTE_TYPES, NextHop, Route
from hostrouting.model.rule import Rule

_FLAGS = {"onlink", "dead", "linkdown"}
_NUMBERS = {"table": "table", "metric": "metric", "tos": "tos", "scope": "scope"}
_NUMBERS |= {"mtu": "mtu", "advmss": "advmss", "nhid": "nexthop_id"}
_OF_RULES = {"pref": "priority", "lookup": "table"}
_OF_RULES |= {"suppress": "suppress_prefixlength", "ifgroup": "suppress_ifgroup"}


def text_rows(text: str) -> pytest.MarkDecorator:
    """A test for each line, with its parts as `row`, which `|` separates; # is a comment."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    split = [[part.strip() for part in line.split("|")] for line in lines]
    return pytest.mark.parametrize("row", split, ids=[" ".join(line.split()) for line in lines])


class HostRow(NamedTuple):
    """A host, what is asked about it, and the expected answer."""

    answer: str
    host: str
    asked: str


def host_rows(text: str) -> pytest.MarkDecorator:
    """A test for each indented line `answer | host | what is asked`, with the argument `row`.

    The line above says in a sentence what they show. One that begins with + has what is on each of
    the hosts below. What stands in [brackets] is on one of two hosts, and not on the other.
    """
    return pytest.mark.parametrize("row", [*_read_host_rows(text)])


def _read_host_rows(text: str) -> Iterator[pytest.ParameterSet]:
    sentence = on_each = ""
    has_row = True
    for line in filter(None, [*text.splitlines(), "end"]):
        if line[0] == "+":
            on_each += f";{line[1:]}"
        elif line[0] != " ":
            assert has_row, f"no host shows that {sentence}"
            sentence, on_each = line, ""
            has_row = False
        else:
            has_row = True
            answer, host, asked, *_ = [each.strip() for each in f"{line}||".split("|")]
            for kept in ("", r"\1") if "[" in host else ("",):
                written = re.sub(r"\[(.*?)\]", kept, host)
                row = HostRow(answer, f"{on_each}; {written}", asked)
                yield pytest.param(row, id=f"{sentence}: {written} {asked}")


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
        elif word == "encap":
            fields["unread"] = (*fields.get("unread", ()), f"encap {words.pop(0)}")
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


def rule_of(text: str) -> Rule:
    """A rule such as `pref 90 not from 10.0.0.0/8 fwmark 1/1 uidrange 0-0 lookup 254`. Usually, it
    has the priority 100 and looks up table 100.
    """
    words = text.split()
    fields: dict[str, Any] = {"priority": 100, "table": 100}
    others: list[tuple[str, str]] = []
    while words:
        word = words.pop(0)
        if word == "not":
            fields["invert"] = True
        elif word in {"prohibit", "unreachable"}:
            fields.update(action=word, table=0)
        elif word == "goto":
            fields.update(action=word, table=0, target=int(words.pop(0)))
        elif word in {"from", "to"}:
            fields["src" if word == "from" else "dst"] = Prefix.parse(words.pop(0))
        elif word == "fwmark":
            mark, _, mask = words.pop(0).partition("/")
            fields.update(fwmark=int(mark, 0), fwmask=int(mask, 0))
        elif word == "iif":
            fields["iif"] = words.pop(0)
        elif word in _OF_RULES:
            fields[_OF_RULES[word]] = int(words.pop(0))
        else:
            others.append((word, words.pop(0)))
    return Rule(6 if ":" in text else 4, others=tuple(others), **fields)
