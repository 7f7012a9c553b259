"""files_of: every file for the boot, as laws for any configuration, and against the programs that
read the files.
"""

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from hostrouting.boot import files as boot_files, scripts, units
from hostrouting.boot.files import files_of, render_config, steps_of
from hostrouting.boot.health import foreign_steps, why_not_run
from hostrouting.boot.listed import name_settings
from hostrouting.boot.on_disk import gated_on_disk, owned_paths
from hostrouting.boot.scripts import asset, filled, render_check_script
from hostrouting.config.settings import (
    MACHINES,
    HostRoutingConfig,
    RouteOverlapConfig,
    StaticRoutesConfig,
    gated_units,
)
from hostrouting.host.files import LocalFiles
from hostrouting.host.fileset import File
from hostrouting.host.layout import DROP_IN, HostLayout
from hostrouting.testing import FakeFiles
from hostrouting.testing.strategies import configs
from tests.support.check_script import command
from tests.support.commands import fabric_host
from tests.support.examples import scaled
from tests.support.sections import expect
from tests.support.tasks import STEPS

LAYOUT = HostLayout()
FULL = HostRoutingConfig.from_mapping(
    {
        "staticRoutes": {"enabled": True, "routes": [{"destination": "172.16.0.0/17"}]},
        "routeOverlap": {"expectedCidrs": ["172.16.0.0/16"], "mode": "STRICT"},
        "probeRewrite": {"enabled": True, "interfaces": ["eth0"]},
        "guard": {"enabled": True},
        "manageForeign": "keep",
    }
)
"""A configuration with every file."""


def text_of(config: HostRoutingConfig, path: str) -> str:
    """The text of this file; empty if the configuration has none."""
    return next((file.text for file in files_of(config) if file.path == path), "")


def put(files: tuple[File, ...]) -> FakeFiles:
    """A host with these files."""
    host = FakeFiles()
    for file in files:
        file.write(host)
    return host


def block_of(text: str) -> tuple[list[str], list[str]]:
    """The lines of the data block, and all others."""
    lines = text.splitlines()
    opening = lines.index("configuration=(") + 1
    closing = lines.index(")", opening)
    return lines[opening:closing], lines[:opening] + lines[closing:]


class TestFiles:
    """Which files there are, and in which order."""

    @given(configs())
    def test_the_order_of_files(self, config: HostRoutingConfig) -> None:
        """config.json comes first, and drop-ins last, one for each gated unit; without anything to
        do there is no file.
        """
        files = files_of(config)
        assert files == files_of(config)
        if not files:
            return
        paths = [file.path for file in files]
        drop_ins = [LAYOUT.drop_in_path(unit) for unit in gated_units(config)]
        assert paths[0] == LAYOUT.config_path
        assert paths[len(paths) - len(drop_ins) :] == drop_ins
        assert len(set(paths)) == len(paths)

    def test_no_gate_without_a_gated_unit(self) -> None:
        """Where foreign routes are only kept, no unit waits for anything."""
        files = files_of(HostRoutingConfig.from_mapping({"manageForeign": "keep"}))
        assert [file.path for file in files] == [LAYOUT.config_path, LAYOUT.networkd_path]

    @given(configs())
    def test_owned(self, config: HostRoutingConfig) -> None:
        """What a host has of ours is found again, all of it and nothing else; drop-ins first,
        config.json last.
        """
        files = files_of(config)
        host = put(files)
        for path in (
            "/etc/systemd/system/a.service",
            f"/etc/systemd/system/b.service.d/{DROP_IN}",
            "/etc/hostrouting/notes",
        ):
            host.texts[path] = "of somebody else\n"

        owned = owned_paths(host)

        assert set(owned) == {file.path for file in files}
        drop_ins = [path for path in owned if path.endswith(DROP_IN)]
        assert list(owned[: len(drop_ins)]) == drop_ins
        if files:
            assert owned[-1] == LAYOUT.config_path
        required = [step.file.path for step in steps_of(config) if step.is_required]
        each_runs_the_next = [LAYOUT.guard_path, LAYOUT.gate_path, *required]
        scripts = [path for path in owned if path in each_runs_the_next]
        assert scripts == [path for path in each_runs_the_next if path in owned]

    @given(configs())
    def test_read_back(self, config: HostRoutingConfig) -> None:
        """config.json is the configuration."""
        assert HostRoutingConfig.from_json(render_config(config)) == config

    def test_what_a_killed_writer_has_left(self) -> None:
        """An empty temporary file and a link to a unit of ours are ours, and nothing else is."""
        empty_drop_in = f"{LAYOUT.drop_in_path('kubelet.service')}.new"
        link = f"{LAYOUT.enabled_path(LAYOUT.routes_unit)}.new"
        unit_with_text = f"{LAYOUT.unit_path(LAYOUT.check_unit)}.new"
        link_elsewhere = f"{LAYOUT.enabled_path(LAYOUT.guard_unit)}.new"
        files = FakeFiles()
        files.texts[empty_drop_in] = ""
        files.texts[unit_with_text] = "[Unit]\n"
        files.links[link] = LAYOUT.unit_path(LAYOUT.routes_unit)
        files.links[link_elsewhere] = "/opt/x.service"
        assert set(owned_paths(files)) == {empty_drop_in, link}

    @pytest.mark.parametrize("is_link", [True, False])
    def test_the_link_of_a_masked_unit(self, *, is_link: bool) -> None:
        """The link is ours, and the mask is not, whether that is an empty file or a link."""
        files = put(files_of(FULL))
        unit = LAYOUT.unit_path(LAYOUT.routes_unit)
        if is_link:
            del files.texts[unit]
            files.links[unit] = "/dev/null"
        else:
            files.texts[unit] = ""
        owned = owned_paths(files)
        assert LAYOUT.enabled_path(LAYOUT.routes_unit) in owned
        assert unit not in owned

    def test_the_link_of_another_programs_unit(self) -> None:
        """With the name of ours: neither is ours."""
        files = put(files_of(FULL))
        unit = LAYOUT.unit_path(LAYOUT.routes_unit)
        files.texts[unit] = "[Unit]\n"
        owned = owned_paths(files)
        assert LAYOUT.enabled_path(LAYOUT.routes_unit) not in owned
        assert unit not in owned

    def test_a_link_to_a_copy_of_our_drop_in(self) -> None:
        """As of a program that keeps its files in one folder. systemd reads the copy, so the unit
        is gated; and without gate.sh, it would not start as long as the link is there.
        """
        files = put(files_of(FULL))
        drop_in = LAYOUT.drop_in_path(MACHINES)
        files.texts["/opt/gitops/drop-in"] = files.texts.pop(drop_in)
        files.links[drop_in] = "/opt/gitops/drop-in"
        assert gated_on_disk(files) == (MACHINES,)
        assert owned_paths(files)[0] == drop_in

    def test_modes(self) -> None:
        """Scripts can be executed, other files only be read."""
        for file in files_of(FULL):
            assert file.mode == (0o755 if file.path.endswith(".sh") else 0o644), file.path

    def test_links(self) -> None:
        """They lead where they will lead on the host."""
        links = {file.path: file.target for file in files_of(FULL) if file.target}
        assert links == {
            LAYOUT.enabled_path(unit): f"/etc/systemd/system/{unit}"
            for unit in (LAYOUT.routes_unit, LAYOUT.probe_unit, LAYOUT.guard_unit)
        }

    def test_foreign_steps(self) -> None:
        """Scripts in gate.d that are not of ours are listed; what is no script is not run, and not
        listed.
        """
        host = put(files_of(FULL))
        host.texts["/etc/hostrouting/gate.d/50-site.sh"] = ""
        host.texts["/etc/hostrouting/gate.d/README"] = ""
        assert foreign_steps(host) == ("/etc/hostrouting/gate.d/50-site.sh",)

    @pytest.mark.linux
    @pytest.mark.needs("root")
    @pytest.mark.parametrize(
        ("change", "fault"),
        [
            ("chmod 600", ""),
            ("chgrp 1", ""),
            ("chmod 664", "users other than root can write to {step}"),
            ("chmod 646", "users other than root can write to {step}"),
            ("chown 1", "{step} does not belong to root"),
            ("ln -sf /etc/hostname", "{step} is a link"),
            ("rm x.sh; mkdir", "{step} is not a file"),
            ("rm", ""),  # its absence is another finding
        ],
    )
    def test_why_a_step_is_not_run(self, tmp_path: Path, change: str, fault: str) -> None:
        """The fault is named, as gate.sh names it."""
        (tmp_path / "x.sh").write_text("exit 0\n")
        subprocess.run(["sh", "-c", f"{change} x.sh"], cwd=tmp_path, check=True)
        refusal = why_not_run(LocalFiles(str(tmp_path)), "/x.sh")
        if fault:
            assert refusal is not None
            assert refusal.sentence.startswith(f"{fault.format(step='/x.sh')}, so ")
        else:
            assert refusal is None


class TestGate:
    """The one line of gate.sh that differs, which no value of an operator reaches."""

    @pytest.mark.parametrize(
        ("change", "line"),
        [
            ({}, f"required=({STEPS[0]} {STEPS[1]}) wanted=({STEPS[2]})"),
            (
                {"route_overlap": expect("10.0.0.0/8")},
                f"required=({STEPS[0]}) wanted=({STEPS[1]} {STEPS[2]})",
            ),
            (
                {"route_overlap": expect(service_cidrs=["10.96.0.0/12"], mode="STRICT")},
                f"required=({STEPS[0]} {STEPS[1]}) wanted=({STEPS[2]})",
            ),
            ({"static_routes": None}, f"required=({STEPS[1]}) wanted=({STEPS[0]} {STEPS[2]})"),
        ],
        ids=["STRICT", "WARN", "STRICT for services alone", "only the reply route"],
    )
    def test_steps(self, change: Any, line: str) -> None:
        """Routes are required, the check in STRICT; probes and the route for their replies are only
        wanted.
        """
        config = FULL._replace(**change)
        assert line in text_of(config, LAYOUT.gate_path).splitlines()

    @given(configs(), configs())
    def test_one_line(self, one: HostRoutingConfig, other: HostRoutingConfig) -> None:
        """Of any two configurations, gate.sh differs in that line alone; guard.sh, drop-ins and
        units never differ.
        """
        first = {file.path: file.text for file in files_of(one)}
        second = {file.path: file.text for file in files_of(other)}
        with_values = {LAYOUT.config_path, *map(LAYOUT.step_path, STEPS)}
        for path in first.keys() & second.keys() - with_values:
            lines = zip(first[path].splitlines(), second[path].splitlines(), strict=True)
            for line, another in lines:
                if path == LAYOUT.gate_path and line.startswith("required=("):
                    continue
                assert line == another


class TestValuesAreData:
    """No value becomes code or a line of its own: a script is an asset with words in one array."""

    @given(configs())
    def test_only_the_block(self, config: HostRoutingConfig) -> None:
        """Outside the block a step is the asset; in the block each line is one quoted word of
        harmless letters.
        """
        harmless = r"[A-Za-z0-9_./*?#=@:;,!{}\" -]"
        # No value reaches a sentence.
        sentence = rf"sentence [A-Za-z-]+ ({harmless}|[][()|]|'\\'')+"
        word = re.compile(rf"  '({sentence}|{harmless}*)'")
        for step in STEPS:
            text = text_of(config, LAYOUT.step_path(step))
            if not text:
                continue
            block, body = block_of(text)
            _, body_of_asset = block_of(filled(f"{step[3:]}.sh", [], {}))
            assert body == body_of_asset
            for line in block:
                assert word.fullmatch(line), line

    @pytest.mark.parametrize("letter", [*"'\\$`&|<>()[]~\n\t"])
    def test_a_letter_that_could_mean_something(self, letter: str) -> None:
        """The renderer does not rely on its input: it refuses what no configuration can hold."""
        with pytest.raises(ValueError, match="has characters that are not allowed"):
            script_with_device(f"eth{letter}0")

    @given(st.text(max_size=20))
    def test_any_text_for_a_device(self, text: str) -> None:
        """It is refused, or it is a word of the block as it stands."""
        try:
            script = script_with_device(text)
        except ValueError:
            return
        block, _ = block_of(script)
        assert f"  'device {text}'" in block


def script_with_device(text: str) -> str:
    """The script of a check that expects this device, whose name the constructors would refuse."""
    section = expect("10.0.0.0/8", expected_devs=["eth0"])
    values = [(text,) if value == ("eth0",) else value for value in section]
    broken = tuple.__new__(RouteOverlapConfig, values)
    others = HostRoutingConfig()[2:]
    config = tuple.__new__(HostRoutingConfig, (StaticRoutesConfig(), broken, *others))
    return render_check_script(config)


@pytest.mark.linux
class TestReaders:
    """The programs that read the files find nothing to complain about."""

    @settings(max_examples=scaled(25))
    @given(configs())
    def test_bash(self, config: HostRoutingConfig) -> None:
        """Bash parses every script, and takes the block for exactly the words
        that were rendered.
        """
        for file in files_of(config._replace(probe_rewrite=FULL.probe_rewrite)):
            if file.path.endswith(".sh"):
                subprocess.run(["bash", "-n"], input=file.text, text=True, check=True)
            if "/gate.d/" in file.path:
                block, _ = block_of(file.text)
                array = "\n".join(["configuration=(", *block, ")"])
                program = f'{array}\nprintf "%s\\n" "${{configuration[@]}}"'
                done = subprocess.run(
                    ["bash", "-c", program], capture_output=True, text=True, check=True, cwd="/etc"
                )
                rendered = [line[3:-1].replace(r"'\''", "'") for line in block]
                assert done.stdout.splitlines() == rendered

    @pytest.mark.needs("shellcheck")
    @pytest.mark.parametrize(
        "path", [file.path for file in files_of(FULL) if file.path.endswith(".sh")]
    )
    def test_shellcheck(self, path: str) -> None:
        """Shellcheck has nothing to say about the scripts."""
        done = subprocess.run(
            ["shellcheck", "--shell=bash", "-"],
            input=text_of(FULL, path),
            text=True,
            capture_output=True,
            check=False,
        )
        assert done.stdout == ""


@pytest.mark.linux
@pytest.mark.needs("root", "nft")
@pytest.mark.parametrize("step", STEPS)
def test_a_damaged_step_fails(step: str, tmp_path: Path) -> None:
    """Cut before its last function ends, or without its settings, a step fails, and leaves no
    marker of a verdict ok.
    """
    config = FULL._replace(route_overlap=expect("192.168.0.0/16", mode="STRICT"))
    text = text_of(config, LAYOUT.step_path(step))
    last_function = text.rindex("\n}\n")
    head, _, rest = text.partition("configuration=(\n")
    _, _, tail = rest.partition(")")
    without_settings = f"{head}configuration=(\n)\n{tail}"
    damaged = [text[: last_function * part // 12] for part in range(13)]
    damaged.append(without_settings)

    script = tmp_path / "script.sh"
    with fabric_host() as host:
        for script_text in damaged:
            script.write_text(script_text)
            done = host.run(*command(script, "kubelet.service", "0"))
            assert done.returncode != 0
            assert not list(tmp_path.glob("run/aks-flex-node/*.ok"))
        script.write_text(text)
        done = host.run(*command(script, "kubelet.service", "0"))
        assert done.returncode == 0, done.stderr


def test_no_unit_pulls_another() -> None:
    """No unit or drop-in has a setting that could stop a running unit, or that keeps a oneshot from
    running again.
    """
    stop_others = ["Requires", "Requisite", "BindsTo", "PartOf", "RequiredBy", "Before="]
    of_systemd = [file.text for file in files_of(FULL) if "/systemd/system/" in file.path]
    assert len(of_systemd) > 4
    for text in of_systemd:
        for word in [*stop_others, "RemainAfterExit"]:
            assert word not in text


_BY_GATE = f"{LAYOUT.gate_path} {{}} {{}}".format
AT_BOOT = {
    LAYOUT.guard_unit: (LAYOUT.guard_path, ""),
    LAYOUT.routes_unit: (_BY_GATE(LAYOUT.routes_unit, LAYOUT.routes_step), ""),
    LAYOUT.check_unit: (_BY_GATE(LAYOUT.check_unit, LAYOUT.check_step), ""),
    LAYOUT.probe_unit: (
        _BY_GATE(LAYOUT.probe_unit, LAYOUT.probe_step),
        " nftables-flush.service nftables.service",
    ),
}


@pytest.mark.parametrize("unit", units.UNITS)
def test_what_a_unit_runs(unit: str) -> None:
    """It says what it is for, what it runs, and which units come first."""
    command, after = AT_BOOT[unit]
    settings_of: dict[str, str] = {}
    for line in units.UNITS[unit].splitlines():
        name, _, value = line.partition("=")
        settings_of[name] = value
    assert " host" in settings_of["Description"] or " the " in settings_of["Description"]
    assert settings_of["After"] == f"network-online.target{after}"
    assert settings_of["ExecStart"].startswith("/bin/bash -pc ")
    assert settings_of["ExecStart"].endswith(f"' {command}")


def test_the_names_of_numbers() -> None:
    """Each is there once, a few in a line."""
    numbers: list[tuple[str, str]] = []
    for line in name_settings():
        _, kind, *pairs = line.split(" ")
        assert len(pairs) <= 14
        numbers += [(kind, number) for number in pairs[::2]]
    assert len(set(numbers)) == len(numbers)
    assert ("proto", "213") in numbers


def test_time_limits() -> None:
    """A oneshot has more time than the gate gives itself with the end of a step that hangs; so has
    a start, by systemd's default, and the guard waits as long.
    """
    [limit] = re.findall(r"^time_limit=(\d+) ", asset("gate.sh"), re.MULTILINE)
    [end] = re.findall(r"^kill_after=(\d+) ", asset("gate.sh"), re.MULTILINE)
    texts = [text for text in units.UNITS.values() if "Type=oneshot" in text]
    assert len(texts) == 3
    [silence] = re.findall(r"^silence_limit=(\d+) ", asset("guard.sh"), re.MULTILINE)
    for allowed in (*re.findall("TimeoutStartSec=(.*)", "".join(texts)), "90", silence):
        assert int(limit) + int(end) < int(allowed)


def test_an_asset_without_a_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """An asset that lost the place of its settings is an error, not a script without them."""
    with pytest.raises(ValueError, match="not enough values"):
        filled("guard.sh", [], {})
    monkeypatch.setattr(scripts, "asset", lambda _: "required=()  wanted=()\n")
    with pytest.raises(ValueError, match="not enough values"):
        scripts.render_gate_script(required=["a"], wanted=[])


def test_errors_in_the_language_of_the_scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    """What `ip` says of a lookup is rendered in English, whatever the language of this process: the
    scripts run `ip` with LC_ALL=C.
    """
    monkeypatch.setattr(os, "strerror", lambda _: "Geen route naar host")
    assert "'refusing-type unreachable no-route No route to host'" in render_check_script(FULL)


def test_assets() -> None:
    """Every asset is used, and no line is too long."""
    assets = {path.name for path in (Path(boot_files.__file__).parent / "assets").iterdir()}
    shared = {"addresses.sh", "clock.sh", "listed.sh", "sentences.sh"}
    assert assets == {*shared, "gate.sh", "guard.sh", *(f"{step[3:]}.sh" for step in STEPS)}
    for name in assets:
        assert [line for line in asset(name).splitlines() if len(line) > 100] == [], name
