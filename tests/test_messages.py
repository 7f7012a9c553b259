"""What is generated is what the code says: every message has an entry, and every generated file is current."""

from __future__ import annotations

import ast

import pytest

from hostrouting import errors
from tests.support.awk_texts import statements, texts_in
from tests.support.pages import ROOT
from tests.support.sentences import Sentence, sentences, sentences_of
from tests.support.write_pages import GENERATED, listed, notes, sorted_out, whole_of


def test_every_message_has_an_entry() -> None:
    """Each message is explained by one entry, and each pattern of an entry fits a message."""
    found, unknown, unused = sorted_out()
    assert not unknown, "write an entry in docs/messages.toml for these"
    assert not unused, "take these out of docs/messages.toml"
    assert all(found.values()), "an entry has no message"
    assert set(notes()["whole"]) <= {whole_of(sentence)[0] for sentence in sentences()}, "take these out of [whole]"


@pytest.mark.parametrize("path", GENERATED)
def test_pages_are_current(path: str) -> None:
    """The file is what the code makes of it now: after a change, run `make messages`."""
    assert (ROOT / path).read_text(encoding="utf-8") == GENERATED[path](), "run: make messages"


def test_every_error_has_a_remedy() -> None:
    """Each error says what to do about it, but for the root and the refusals of one route, which are inside others."""
    kinds = {name: getattr(errors, name) for name in errors.__all__ if name != "is_denied"}
    inner = {name for name, kind in kinds.items() if issubclass(kind, errors.RouteRefused)}
    assert set(notes()["errors"]) == set(kinds) - inner - {"HostRoutingError", "Fault"}


def test_words_and_values_agree_about_trying_again() -> None:
    """Where the remedy says to run the same again, the error says so too: an agent reads `can_retry`, a person the words."""
    told = {name for name, remedy in notes()["errors"].items() if " it again" in remedy or "try again" in remedy}
    assert told <= {name for name in told if getattr(errors, name).can_retry}


def test_messages_are_found() -> None:
    """A message of each kind is found: an error's, a finding, a log line, a fault of the configuration, a script's."""
    texts = {sentence.text for sentence in sentences()}
    assert "the routes could not be applied: {shown}{more}; {after}" in texts
    assert "{what} routes via {via} [{holder}], expected {expected}{owner}" in texts
    assert "{signal_name}: stopping, waiting for {still}" in texts
    assert "routes were provided but enabled=false; set enabled=true to apply static routes" in texts
    assert "stopped before there was a verdict" in texts
    assert "{name}.sh failed" in texts
    assert "the routes kept changing while they were read" in texts
    packets = "not judged are packets that these select: {unjudged}"
    assert f"{packets}; for these run: hostrouting check" in texts


def test_a_named_text_is_put_where_it_is_used() -> None:
    """A text with a name is part of the message that uses it, and stays a message of its own after a branch."""
    code = """
def straight(dev):
    told = f"there is no device {dev}"
    fail(f"{told}; name another one")

def branched(dev):
    why = ""
    if dev:
        why = "because it is down"
    fail(f"nothing was sent to it {why}")
"""
    found = [(it.place, it.text) for it in sentences_of("m", ast.parse(code))]
    assert found == [
        ("m:straight", "there is no device {dev}; name another one"),
        ("m:branched", "because it is down"),
        ("m:branched", "nothing was sent to it {why}"),
    ]


def test_a_text_in_awk_is_whole() -> None:
    """Strings and values that awk joins are one message; word lists and what other programs say are not messages."""
    code = """
function say(a) { # "this is a comment"
  split("one two three" \\
    " four five", words, " "); means["No route to host"] = 1
  print "refused " wish[a] ": held by [" line[a] "], " \\
    "not by " dotted(a, "this is an argument") (a ? a : "nobody at all") "."
  return a == 1 ? "the first of them" : "another one of them"
}"""
    found = [text for _, line in statements(enumerate(code.splitlines(), 1)) for text in texts_in(line)]
    assert found == [
        "this is an argument",
        "refused {wish}: held by [{line}], not by {a}{a}.",
        "the first of them",
        "another one of them",
    ]


def test_arguments_of_one_call_are_one_message() -> None:
    """A rule and its remedy, which one call is given, are one message, also if the remedy is a value; keys of a table are none."""
    code = """fault(spot, "is not an address", "write one such as 10.0.0.1")
at.faulty(raw, "is too long", remedy)
WORDS = {"a key of the table": "what is said for it"}
"""
    assert [it.text for it in sentences_of("m", ast.parse(code))] == [
        "is not an address; write one such as 10.0.0.1",
        "is too long; {remedy}",
        "what is said for it",
    ]


def test_alternatives_are_messages_of_their_own() -> None:
    """A message with alternatives is listed once with each; of a singular and a plural, only the plural is shown."""
    code = """
def told(mode, wait, count):
    then = "no machine starts here" if mode else "all of them start anyway"
    fail(f"there is nothing to use; {f'it waits {wait} s, and then {then}' if wait else then}; add it")
    fail(f"{count} more {'route' if count == 1 else 'routes'} to delete{f' on {mode}' if mode else ''}")
"""
    assert [it.text for it in sentences_of("m", ast.parse(code))] == [
        "there is nothing to use; it waits {wait} s, and then no machine starts here; add it",
        "there is nothing to use; it waits {wait} s, and then all of them start anyway; add it",
        "there is nothing to use; no machine starts here; add it",
        "there is nothing to use; all of them start anyway; add it",
        "{count} more routes to delete on {mode}",
    ]


def test_one_placeholder_stands_for_one_value() -> None:
    """Two values with the same name are told apart in the message; one value that is said twice is not."""
    code = """
def told(key, table, dev):
    fail(f"the table should have {words(table.at(key))}, but now has {words(key)}")
    fail(f"there is no device {dev}; add the device {dev}")
    log.warning("%s s have passed, and %s is still not there", dev, "; ".join(map(str, table)))
"""
    assert [it.text for it in sentences_of("m", ast.parse(code))] == [
        "the table should have {key}, but now has {other key}",
        "there is no device {dev}; add the device {dev}",
        "{dev} s have passed, and {table} is still not there",
    ]
    for text in (it.text for it in sentences()):
        assert "{other " not in text, "give the two values names of their own"


def test_parts_are_under_their_message(monkeypatch: pytest.MonkeyPatch) -> None:
    """A part is indented under its message, or put into it if it is the only one and the message is not listed."""
    wholes = {"m:why": "no machine starts: {>why}", "m: in *": "it failed {>place}", "n:*": "stopped ({>who})"}
    monkeypatch.setitem(notes(), "whole", wholes)
    found = [
        Sentence("m:why", 1, "the script is missing"),
        Sentence("m", 2, "no machine starts: {why}"),
        Sentence("m:why", 3, "the list is damaged"),
        Sentence("m", 4, "in the table"),
        Sentence("n:a", 5, "by the user"),
    ]
    assert list(listed(found)) == [
        "- `no machine starts: {why}`, where `{why}` can be:",
        "    - `the script is missing`",
        "    - `the list is damaged`",
        "- `it failed in the table`",
        "- `stopped (by the user)`",
    ]
