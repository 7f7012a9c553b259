"""The settings of check-route-overlap.sh: what Python knows, and the script needs, is rendered from
it.
"""

import re
from collections.abc import Iterator

import pytest

from hostrouting.boot.check_settings import NO_KIND, _word, check_sentences, check_settings
from hostrouting.boot.scripts import asset, render_check_script, render_static_routes_script
from hostrouting.check.sentences import DOUBTS
from hostrouting.config.cni import CNIS, POD_NETWORKS
from hostrouting.config.settings import HostRoutingConfig, StaticRoutesConfig
from hostrouting.model.route import REFUSING, ROUTE_TYPES
from hostrouting.routes.steps import SENTENCES
from hostrouting.routes.uplink import NEEDS, REMEDIES
from tests.support.check_script import check
from tests.support.sections import expect, static

SETTINGS = check_settings(check("172.16.0.0/16", "fd16::/48"))
SCRIPT = asset("check-route-overlap.sh")


def settings(word: str) -> Iterator[list[str]]:
    """The values of each setting with this word."""
    return (words for key, *words in map(str.split, SETTINGS) if key == word)


EXAMPLES = {
    "check-route-overlap.sh": render_check_script(
        check(
            *("10.0.0.0/8", "fd16::/32"),
            expected_devs=["eth0"],
            allowed_devs=["wg*"],
            intended_rules=["fwmark 0x1"],
            service_cidrs=["10.96.0.0/12"],
        )
    ),
    "static-routes.sh": render_static_routes_script(
        HostRoutingConfig(
            StaticRoutesConfig(True, (static("172.16.0.0/12", "10.0.0.1", "eth0"),)),
            route_overlap=expect("10.0.0.0/8", expected_devs=["eth0"]),
        )
    ),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_each_setting_has_an_example(name: str) -> None:
    """Above the settings, a script has an example for each kind of them, as it is rendered."""
    script = EXAMPLES[name]
    comment, _, rest = script.partition("\nconfiguration=(\n")
    settings_of_it = re.findall(r"^  '(.*)'$", rest.partition("\n)\n")[0], re.MULTILINE)
    rendered = {line.replace("'\\''", "'") for line in settings_of_it}
    words = {line.split()[0] for line in rendered}
    comments = [*comment.splitlines(), *asset("listed.sh").splitlines()]
    examples = [line[4:].partition("   ")[0] for line in comments if line[:4] == "#   "]
    examples = [line for line in examples if line.split(" ")[0] in words]
    assert [line for line in examples if line not in rendered] == []
    assert {line.split()[0] for line in examples} == words


def test_the_script_reads_each_setting() -> None:
    """No setting is rendered in vain: the script has a use for the first word of each."""
    words = {line.split()[0] for line in SETTINGS}
    assert {word for word in words if not re.search(rf"\b{word}\b", SCRIPT)} == set()


def test_each_device_of_a_cni() -> None:
    """The script knows each device in the table of CNIs, with its kinds and its use; and each that
    shows that its CNI has pods is also one of a pod.
    """
    names = {_word(cni.name): cni.name for cni in CNIS}
    rendered: set[tuple[str, ...]] = set()
    for name, use, *devices in settings("cni"):
        for kind, pattern in zip(devices[::2], devices[1::2], strict=True):
            rendered.add((names[name], use, kind, pattern))
    known: set[tuple[str, ...]] = set()
    for cni in CNIS:
        for device in cni.devices:
            for kind in device.kinds:
                known.add((cni.name, device.use, kind or NO_KIND, device.pattern))
                if device.pattern in POD_NETWORKS:
                    known.add((cni.name, "pod", kind, device.pattern))
    assert rendered == known
    assert {device for *_, device in rendered} >= {*POD_NETWORKS}


def test_each_refused_range_has_one_row() -> None:
    """The script looks a refused range up by its family, type and protocol, so no two CNIs may
    share these.
    """
    keys = [tuple(words[:3]) for words in settings("refuses")]
    assert len(keys) == len({*keys}) > 1
    assert {kind for _, kind, _ in keys} == {*REFUSING}


def test_names_and_errors() -> None:
    """A number has the name that the command prints; each way to be refused is an error of `ip`."""
    names: dict[tuple[str, str], str] = {}
    for kind, *pairs in settings("names"):
        for number, name in zip(pairs[::2], pairs[1::2], strict=True):
            names[kind, number] = name
    assert names["proto", "80"] == "calico"
    assert names["ipproto", "17"] == "udp"
    assert names["table", "254"] == "main"
    assert names["scope", "253"] == "link"
    assert [names["type", str(number)] for number in range(len(ROUTE_TYPES))] == [*ROUTE_TYPES]
    assert {kind for kind, *_ in settings("refusing-type")} == {*REFUSING}


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
        said |= set(re.findall(r'"([A-Za-z-]+[A-Za-z])"', arguments.partition(", ")[0]))
    for groups in WHY_UNCLEAR.findall(script):
        said |= {f"unclear-{word}" for word in "".join(groups).split("|")}
    assert said <= {*sentences}
    assert {text for text in {*sentences} - said if not text.startswith("unclear-")} == set()
    filled = set(re.findall(r'words_for\["([a-z]+)"\] = ', script))
    assert filled == set(re.findall(r"{([a-z]+)}", " ".join(sentences.values())))


def test_the_doubts_of_both() -> None:
    """The doubts that both have are said in the same words, with the same remedy."""
    sentences = check_sentences()
    for name in ("default-routes", "two-cnis", "doubtful-route", "other-packets"):
        assert sentences[name] == f"{DOUBTS[name].sentence}; {DOUBTS[name].remedy}"
