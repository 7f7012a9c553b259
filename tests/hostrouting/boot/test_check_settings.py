"""The settings of check-route-overlap.sh: what Python knows, and the script needs, is rendered from
it.
"""

import re
from collections.abc import Iterable, Sequence

import pytest

from hostrouting.boot.check_settings import NO_KIND, _one_word, check_sentences, check_settings
from hostrouting.boot.scripts import asset, render_check_script, render_static_routes_script
from hostrouting.check.doubts import DOUBTS
from hostrouting.config.cni import CNIS, POD_NETWORKS
from hostrouting.config.settings import HostRoutingConfig, StaticRoutesConfig
from hostrouting.model.route import REFUSING, ROUTE_TYPES
from hostrouting.routes.steps import SENTENCES
from hostrouting.routes.uplink import NEEDS, REMEDIES
from tests.support.check_script import check
from tests.support.sections import expect, static

SETTINGS = check_settings(check("172.16.0.0/16", "fd16::/48"))
SCRIPT = asset("check-route-overlap.sh")


def settings(word: str) -> list[list[str]]:
    """The values of each setting with this word."""
    values: list[list[str]] = []
    for line in SETTINGS:
        key, *words = line.split()
        if key == word:
            values.append(words)
    return values


def pairs(words: Sequence[str]) -> list[tuple[str, str]]:
    """The words two by two."""
    return list(zip(words[::2], words[1::2], strict=True))


def first_words(lines: Iterable[str]) -> set[str]:
    """What each line is about."""
    return {line.split(" ")[0] for line in lines}


def check_script() -> str:
    """The script of a check that has each kind of setting."""
    return render_check_script(
        check(
            *("10.0.0.0/8", "fd16::/32"),
            expected_devs=["eth0"],
            allowed_devs=["wg*"],
            intended_rules=["fwmark 0x1"],
            service_cidrs=["10.96.0.0/12"],
        )
    )


def static_routes_script() -> str:
    """The script of a static route that has each kind of setting."""
    routes = StaticRoutesConfig(True, (static("172.16.0.0/12", "10.0.0.1", "eth0"),))
    section = expect("10.0.0.0/8", expected_devs=["eth0"])
    return render_static_routes_script(HostRoutingConfig(routes, route_overlap=section))


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(check_script(), id="check-route-overlap.sh"),
        pytest.param(static_routes_script(), id="static-routes.sh"),
    ],
)
def test_each_setting_has_an_example(script: str) -> None:
    """Above the settings, a script has an example for each kind of them, as it is rendered."""
    comment, _, rest = script.partition("\nconfiguration=(\n")
    configuration, _, _ = rest.partition("\n)\n")
    quoted = re.findall(r"^  '(.*)'$", configuration, re.MULTILINE)
    rendered = {line.replace("'\\''", "'") for line in quoted}
    kinds = first_words(rendered)

    examples: set[str] = set()
    for line in [*comment.splitlines(), *asset("listed.sh").splitlines()]:
        if line.startswith("#   "):
            example, _, _ = line.removeprefix("#   ").partition("   ")
            if first_words([example]) <= kinds:
                examples.add(example)

    assert examples <= rendered
    assert first_words(examples) == kinds


def test_the_script_reads_each_setting() -> None:
    """No setting is rendered in vain: the script has a use for the first word of each."""
    for word in first_words(SETTINGS):
        assert re.search(rf"\b{word}\b", SCRIPT), word


def test_each_device_of_a_cni() -> None:
    """The script knows each device in the table of CNIs, with its kinds and its use; and each that
    shows that its CNI has pods is also one of a pod.
    """
    names = {_one_word(cni.name): cni.name for cni in CNIS}
    rendered: set[tuple[str, ...]] = set()
    for name, use, *devices in settings("cni"):
        for kind, pattern in pairs(devices):
            rendered.add((names[name], use, kind, pattern))

    known: set[tuple[str, ...]] = set()
    for cni in CNIS:
        for device in cni.devices:
            for kind in device.kinds:
                known.add((cni.name, device.use, kind or NO_KIND, device.pattern))
                if device.pattern in POD_NETWORKS:
                    known.add((cni.name, "pod", kind, device.pattern))

    assert rendered == known
    patterns = {pattern for *_, pattern in rendered}
    assert set(POD_NETWORKS) <= patterns


def test_each_refused_range_has_one_row() -> None:
    """The script looks a refused range up by its family, type and protocol, so no two CNIs may
    share these.
    """
    keys = [(family, kind, protocol) for family, kind, protocol, *_ in settings("refuses")]
    assert len(keys) > 1
    assert len(keys) == len(set(keys))
    assert {kind for _, kind, _ in keys} == set(REFUSING)


def test_names() -> None:
    """A number has the name that the command prints."""
    names: dict[tuple[str, str], str] = {}
    for kind, *words in settings("names"):
        for number, name in pairs(words):
            names[kind, number] = name
    assert names["proto", "80"] == "calico"
    assert names["ipproto", "17"] == "udp"
    assert names["table", "254"] == "main"
    assert names["scope", "253"] == "link"
    for place, route_type in enumerate(ROUTE_TYPES):
        assert names["type", str(place)] == route_type


def test_errors() -> None:
    """Each way to be refused is an error of `ip`."""
    assert {kind for kind, *_ in settings("refusing-type")} == set(REFUSING)


# How the two scripts name a sentence that they say.
NAMED = re.compile(r"\b(?:in_words|doubt|escape|note_doubt)\((?=([^)]*))")
WHY_UNCLEAR = re.compile(
    r'route_and_why\("([a-z]+)"|unclear = "([a-z][a-z-]*)"|unclear ~ /\^\(([a-z|]+)\)'
)


@pytest.mark.parametrize(
    ("name", "sentences"),
    [
        ("check-route-overlap.sh", check_sentences()),
        ("static-routes.sh", NEEDS | REMEDIES | SENTENCES),
    ],
)
def test_sentences(name: str, sentences: dict[str, str]) -> None:
    """A script says each of its sentences, names no other, and fills each of their holes."""
    script = asset(name)
    said: set[str] = set()
    for arguments in NAMED.findall(script):
        first, _, _ = arguments.partition(", ")
        said |= set(re.findall(r'"([A-Za-z-]+[A-Za-z])"', first))
    for groups in WHY_UNCLEAR.findall(script):
        said |= {f"unclear-{word}" for word in "".join(groups).split("|")}

    assert said <= sentences.keys()
    for sentence in sentences.keys() - said:
        assert sentence.startswith("unclear-")
    filled = set(re.findall(r'words_for\["([a-z]+)"\] = ', script))
    assert filled == set(re.findall(r"{([a-z]+)}", " ".join(sentences.values())))


def test_the_doubts_of_both() -> None:
    """The doubts that both have are said in the same words, with the same remedy."""
    sentences = check_sentences()
    for name in ("default-routes", "two-cnis", "doubtful-route", "other-packets"):
        assert sentences[name] == f"{DOUBTS[name].sentence}; {DOUBTS[name].remedy}"
