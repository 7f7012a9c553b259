"""Text, bytes and files: every way to fail to be JSON."""

import os
import re
from pathlib import Path

import pytest

from hostrouting.config import json as jsontext
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "configuration: is empty; write {} for an empty configuration"),
        (b" \n", "configuration: is empty; write {} for an empty configuration"),
        (
            "[1,",
            (
                "configuration: is not JSON: Expecting value (line 1, column 4); "
                "write a value here: {...}, [...], a string in double quotes, a number, true or false; JSON has no trailing comma"
            ),
        ),
        (
            '{\n "a": 1 "b"}',
            (
                "configuration: is not JSON: Expecting ',' delimiter (line 2, column 9); "
                "write a comma there, or the closing bracket"
            ),
        ),
        (
            "{} {}",
            (
                "configuration: is not JSON: Extra data (line 1, column 4); "
                "the file must be one object: remove the text after its closing }"
            ),
        ),
        ('{"a"; 1}', "configuration: is not JSON: Expecting ':' delimiter (line 1, column 5); write a colon there"),
        (
            '{"a": "b}',
            (
                "configuration: is not JSON: Unterminated string starting at (line 1, column 7); "
                "end the string with a double quote"
            ),
        ),
        (
            '{"a": "b\n"}',
            (
                "configuration: is not JSON: Invalid control character at (line 1, column 9); "
                "write \\n for a line break and \\t for a tab, or end the string with a double quote"
            ),
        ),
        (
            '{"a": "\\d"}',
            "configuration: is not JSON: Invalid \\escape (line 1, column 8); write \\\\ for one backslash",
        ),
        ("\ufeff{}", "configuration: starts with a byte order mark; save it as UTF-8 without BOM"),
        (b"\xef\xbb\xbf{}", "configuration: starts with a byte order mark; save it as UTF-8 without BOM"),
        (b'{"\xe9": 1}', "configuration: is not UTF-8 (byte 0xe9 at offset 2); save it as UTF-8"),
        ("{}".encode("utf-16"), "configuration: is not UTF-8 (byte 0xff at offset 0); save it as UTF-8"),
        ("[" * 200_000, "configuration: is nested too deeply to be read; a configuration has at most five levels"),
        ('{"a":' * 200_000, "configuration: is nested too deeply to be read; a configuration has at most five levels"),
    ],
    ids=lambda value: ascii(value)[:24],
)
def test_text_that_is_no_json(text: str | bytes, message: str) -> None:
    """Unreadable text is refused with its source and, if known, the position."""
    with pytest.raises(ConfigError) as caught:
        HostRoutingConfig.from_json(text)
    assert str(caught.value) == message


@pytest.mark.parametrize("text", ["{a: 1}", "{'a': 1}", '{"a": 1,}', '{"a": 1, // why\n "b": 2}'])
def test_where_a_key_belongs(text: str) -> None:
    """For keys without double quotes, a trailing comma and comments, the message says what JSON requires."""
    with pytest.raises(ConfigError) as caught:
        HostRoutingConfig.from_json(text)
    # Python 3.13 has a different message for a trailing comma.
    assert re.search(r"in double quotes.*no comments|remove the comma", str(caught.value))


@pytest.mark.parametrize(
    ("text", "looks"),
    [
        ("staticRoutes:\n  enabled: true\n", "YAML"),
        ("# routes\n\n---\nstaticRoutes: {}\n", "YAML"),
        ("- destination: 10.0.0.0/8\n", "YAML"),
        ("[staticRoutes]\nenabled = true\n", "TOML or INI"),
        ("enabled=true\n", "TOML or INI"),
        ("<html>\n", "XML or HTML"),
    ],
)
def test_text_of_another_kind(text: str, looks: str) -> None:
    """Text that looks like another format is named as that, with an example of a configuration."""
    with pytest.raises(ConfigError) as caught:
        HostRoutingConfig.from_json(text)
    (fault,) = caught.value.faults
    assert fault.rule.startswith(f"looks like {looks} and is not JSON: ")
    assert HostRoutingConfig.from_json(fault.remedy.removeprefix("write it as ")).route_overlap.expected_cidrs


def test_what_is_not_text_at_all() -> None:
    """A wrong argument from untyped code is a fault, not a crash."""
    with pytest.raises(ConfigError, match="null is not a string of JSON"):
        HostRoutingConfig.from_json(None)  # type: ignore[arg-type] # the mistake under test


def test_no_message_quotes_the_file() -> None:
    """An agent's file contains secrets: a syntax error shows the position, never the text."""
    with pytest.raises(ConfigError) as caught:
        HostRoutingConfig.from_json('{"clientSecret": "hunter2" "hostRouting": {}}')
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("digits", [300, 400, 4300, 100_000])
def test_endless_integers(digits: int) -> None:
    """A very long integer is out of range, even one that is too long for Python to parse."""
    with pytest.raises(ConfigError) as caught:
        HostRoutingConfig.from_json('{"staticRoutes": {"routes": [{"metric": 1' + "0" * (digits - 1) + "}]}}")
    assert ("staticRoutes.routes[0].metric", "is out of range") in [(it.path, it.rule) for it in caught.value.faults]


def test_endless_integers_outside_our_part() -> None:
    """Other sections of an agent's file are ignored, whatever they contain."""
    text = '{"serial": ' + "9" * 10_000 + ', "load": NaN, "x": 1, "x": 2, "hostRouting": {}}'
    assert HostRoutingConfig.from_json(text) == HostRoutingConfig()


def test_load_reads_a_file(tmp_path: Path) -> None:
    """A file is read like its text, by a path as text or as an object."""
    file = tmp_path / "config.json"
    file.write_text('{"hostRouting": {"manageForeign": "keep"}}')
    assert HostRoutingConfig.load(file) == HostRoutingConfig.load(str(file)) == HostRoutingConfig(manage_foreign="keep")


def test_load_names_the_file(tmp_path: Path) -> None:
    """Faults in a file carry the file's name, in the message and as a value."""
    file = tmp_path / "config.json"
    file.write_text('{"manageForeign": 2, "manageForegn": 1}')
    with pytest.raises(ConfigError) as caught:
        HostRoutingConfig.load(file)
    assert caught.value.source == str(file)
    assert str(caught.value).startswith(f"{file} has 2 faults:\n  manageForeign: 2 is not")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("absent.json", "cannot be read: No such file or directory; check the path"),
        ("", "is a directory; name the file in it"),
        ("pipe", "is a fifo, not a regular file"),
        ("file/config.json", "cannot be read: Not a directory; check the path"),
        ("file", "is not JSON: "),
        ("huge.json", "is larger than 64 MiB"),
    ],
)
def test_load_of_what_is_no_configuration(tmp_path: Path, name: str, said: str) -> None:
    """The error says what was found there, with the path, which is named once."""
    (tmp_path / "file").write_text("{]")
    os.mkfifo(tmp_path / "pipe")
    with (tmp_path / "huge.json").open("wb") as stream:
        stream.truncate(jsontext.SIZE_LIMIT + 1)  # sparse: it takes no room
    path = str(tmp_path / name)
    with pytest.raises(ConfigError) as caught:
        HostRoutingConfig.load(path)
    assert str(caught.value).startswith(f"{path}: {said}")
    assert str(caught.value).count(path) == 1
    assert isinstance(caught.value.__cause__, OSError) is (name not in {"file", "huge.json"})


def test_load_without_permission(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file without read permission is named, with the remedy."""

    def denied(path: str) -> object:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(os, "stat", denied)
    with pytest.raises(ConfigError, match="cannot be read: Permission denied; run as root, or give"):
        HostRoutingConfig.load("config.json")


@pytest.mark.parametrize(
    ("path", "shown"), [("a\0b", r'"a\u0000b"'), ("/\ud800", r'"/\ud800"'), ("/\x1b[2J", r'"/\u001b[2J"'), ("", '""')]
)
def test_load_of_what_is_no_path(path: str, shown: str) -> None:
    """A path with control characters is refused, and shown escaped."""
    with pytest.raises(ConfigError) as caught:
        HostRoutingConfig.load(path)
    assert str(caught.value).startswith(f"{shown}: ")
    assert str(caught.value).isprintable()
