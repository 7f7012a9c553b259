"""hostrouting.boot: the text of boot files, as laws and against the programs that read them."""

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hostrouting.boot
from hostrouting.boot.gate_files import (
    GateStep,
    StepKind,
    format_of,
    parse_gate_steps,
    render_gate_drop_in,
    render_gate_script,
    render_gate_steps,
    render_gate_unit,
)
from hostrouting.boot.probe import ProbeScript, parse_probe_script, render_probe_script, render_probe_unit
from hostrouting.boot.scripts import (
    CheckScript,
    RoutesScript,
    asset_lines,
    parse_check_script,
    parse_static_routes_script,
    render_check_script,
    render_static_routes_script,
)
from hostrouting.boot.units import (
    SHELL,
    parse_guard_unit,
    render_check_unit,
    render_guard_unit,
    render_networkd_drop_in,
    render_preset,
    render_routes_unit,
)
from hostrouting.config.probe_rewrite import ProbeRewriteConfig
from hostrouting.config.settings import HostRoutingConfig, RouteOverlapConfig, StaticRoute, StaticRoutesConfig
from hostrouting.host.layout import HostLayout
from hostrouting.model.route import DEFAULT_METRIC
from tests.support.config_strategies import configs, probe_rewrites

ASSETS = Path(hostrouting.boot.__file__).parent / "assets"
WAITS = st.integers(0, 600)
ODD = HostRoutingConfig(
    StaticRoutesConfig(
        enabled=True,
        routes=[
            StaticRoute("172.16.0.0/17"),
            StaticRoute("172.16.128.0/17", "10.0.0.1", "-rf", 4294967295),
            StaticRoute("10.9.0.0/16", dev="..."),
            StaticRoute("10.8.0.0/16", dev="configuration"[:15]),
        ],
    ),
    RouteOverlapConfig(["172.16.0.0/12", "0.0.0.0/0"], "STRICT", ["eth0", "-", "gateway"], ["*a*", "?", "cni?-*"][::2]),
)


STEPS = (GateStep(50, "requires", "static-routes"), GateStep(60, "wants", "check-route-overlap"))


def units() -> dict[str, str]:
    """The text of each unit."""
    return {
        HostLayout.routes_unit: render_routes_unit(),
        HostLayout.check_unit: render_check_unit(),
        HostLayout.probe_unit: render_probe_unit(),
        HostLayout.guard_unit: render_guard_unit("/opt/agent/bin/hostrouting"),
        HostLayout.gate_unit: render_gate_unit(),
    }


GIVEN = ("After", "TimeoutStartSec", "CapabilityBoundingSet", "RuntimeDirectory", "WantedBy", "SuccessExitStatus")
_NET, _FLUSHED = "network-online.target", "nftables-flush.service nftables.service"
_ALL = f"{_NET} static-routes.service probe-rewrite.service {_FLUSHED}"
_ADMIN, _BOTH, _BOOT = ("CAP_NET_ADMIN",), ("aks-flex-node hostrouting",), ("multi-user.target",)
GIVEN_TO = {
    HostLayout.routes_unit: [(_NET,), ("50",), _ADMIN, (), _BOOT, ("143",)],
    HostLayout.check_unit: [(f"{_NET} static-routes.service",), ("110",), ("",), ("aks-flex-node",), (), ("143",)],
    HostLayout.probe_unit: [(f"{_NET} {_FLUSHED}",), ("50",), _ADMIN, ("hostrouting",), _BOOT, ("143",)],
    HostLayout.guard_unit: [(_ALL,), ("90",), _ADMIN, _BOTH, _BOOT, ("143",)],
    HostLayout.gate_unit: [(_ALL,), ("85",), _ADMIN, _BOTH, (), ()],
}
"""What each unit has of these settings."""


def gate_steps() -> st.SearchStrategy[GateStep]:
    """Any step of a gate."""
    kinds = st.sampled_from(get_args(StepKind))
    names = st.text("abcdefghijklmnopqrstuvwxyz0123456789-", min_size=1, max_size=30)
    return st.builds(GateStep, st.integers(0, 10_000), kinds, names)


def probe_scripts() -> st.SearchStrategy[ProbeScript]:
    """Any settings of the probe script."""
    rewrites = probe_rewrites().filter(lambda rewrite: rewrite.enabled)
    return st.builds(ProbeScript, rewrites, WAITS)


def block_of(text: str) -> tuple[list[str], list[str]]:
    """The lines of the data block, and all others."""
    lines = text.splitlines()
    opening = lines.index("configuration=(") + 1
    closing = lines.index(")", opening)
    return lines[opening:closing], lines[:opening] + lines[closing:]


def scripts(config: HostRoutingConfig) -> tuple[str, str]:
    """Both scripts."""
    return render_static_routes_script(config), render_check_script(config)


def texts(config: HostRoutingConfig) -> list[str]:
    """Every text there is."""
    return [
        *scripts(config),
        *units().values(),
        render_gate_drop_in(),
        render_gate_script(),
        render_gate_steps(STEPS),
        render_preset(HostLayout.routes_unit),
        render_networkd_drop_in(),
    ]


PROBE = ProbeScript(ProbeRewriteConfig(enabled=True, interfaces=["eth0"]))
SCRIPTS: dict[str, Callable[[], str]] = {
    "static-routes": lambda: render_static_routes_script(ODD),
    "check-route-overlap": lambda: render_check_script(ODD),
    "probe-rewrite": lambda: render_probe_script(PROBE),
    "host-routing-gate": render_gate_script,
}


def as_parsed(script: str) -> list[list[str]]:
    """A script without its settings as bash understands it, and the program in it as awk does."""
    text = re.sub(r"(?ms)^configuration=\(\n.*?^\)$", "", script)
    program = re.search(r"(?ms)^program='(.*?)^'$", text)
    commands = [["bash", "--pretty-print"], *([["mawk", "-W", "dump", program[1]]] if program else [])]
    texts = [text.replace(program[1], "") if program else text, ""]
    outputs = (
        subprocess.run(words, input=given, text=True, capture_output=True, check=True).stdout
        for words, given in zip(commands, texts, strict=False)
    )
    # bash keeps empty lines; mawk lists functions in any order, and expressions with addresses.
    return [sorted(re.split(r"(?m)^(?=function )", re.sub(r"\n+|0x[0-9a-f]+", "\n", output))) for output in outputs]


class TestWhatIsRenderedIsReadBack:
    """parse(render(x)) == x."""

    @given(configs(), WAITS)
    def test_routes(self, config: HostRoutingConfig, wait: int) -> None:
        """The static routes and the time to wait come back from the script."""
        routes = config.static_routes.routes
        expected = RoutesScript(StaticRoutesConfig(bool(routes), routes), wait)
        assert parse_static_routes_script(render_static_routes_script(config, wait=wait)) == expected

    @given(configs(), WAITS)
    def test_check(self, config: HostRoutingConfig, wait: int) -> None:
        """The whole section of the check and the time to wait come back from the script."""
        expected = CheckScript(config.route_overlap, wait)
        assert parse_check_script(render_check_script(config, wait=wait)) == expected

    @given(probe_scripts())
    def test_probe(self, told: ProbeScript) -> None:
        """Everything that the script about probes was told comes back from it, and only its data block depends on it."""
        text = render_probe_script(told)
        assert parse_probe_script(text) == told
        assert block_of(text)[1] == block_of(SCRIPTS["probe-rewrite"]())[1]

    @given(st.lists(gate_steps()))
    def test_gate_steps(self, steps: list[GateStep]) -> None:
        """The steps of the gate come back from the list, in the order in which they were given."""
        assert parse_gate_steps(render_gate_steps(steps)) == tuple(steps)

    @given(st.lists(gate_steps()), st.floats(0, 1, exclude_max=True))
    def test_a_list_that_was_cut_short(self, steps: list[GateStep], place: float) -> None:
        """A list that is cut anywhere is a ValueError; only its last newline may be missing."""
        text = render_gate_steps(steps).removesuffix("\n")
        with pytest.raises(ValueError, match=r"is incomplete|is not a step|is not a name"):
            parse_gate_steps(text[: int(place * len(text))])

    @pytest.mark.parametrize(
        "line", ["", "50", "50 requires", "50 requires ", "x requires a", "-1 wants a", "50 needs a", "50 wants A b"]
    )
    def test_a_line_that_is_not_a_step(self, line: str) -> None:
        """Any other line in the list of steps is a ValueError."""
        with pytest.raises(ValueError, match=r"is not a step|is not a name"):
            parse_gate_steps(f"{line}\nend\n")

    def test_the_guards_program(self) -> None:
        """The path of the program is read back; a unit that another program wrote has none."""
        text = render_guard_unit("/opt/agent-2.0/bin/hostrouting")
        assert parse_guard_unit(text) == "/opt/agent-2.0/bin/hostrouting"
        for other in (text.partition("\n")[2], text.replace("hostrouting guard\n", "hostrouting watch\n")):
            with pytest.raises(ValueError, match="does not name"):
                parse_guard_unit(other)

    @pytest.mark.parametrize("name", ["", "a b", "../a", "A", "a\n", "$(a)"])
    def test_a_step_whose_name_is_more_than_a_name(self, name: str) -> None:
        """A step whose name could mean anything else in a path or in the list is refused, and so is such a kind."""
        with pytest.raises(ValueError, match=r"name: .* is not a name"):
            GateStep(50, "wants", name)
        with pytest.raises(ValueError, match="'kind' must be in"):
            GateStep(50, name, "a")  # type: ignore[arg-type]  # the validator is tested

    @pytest.mark.parametrize(
        ("line", "number"),
        [
            ("# format 2", 2),
            ("# format 2\n# format 10\n# format 3", 10),
            ("# format ²", 1),
            ("# format x", 1),
            ("7", 1),
        ],
    )
    def test_the_format_of_a_list(self, line: str, number: int) -> None:
        """The format is the highest number that the list says; anything else in such a line says none."""
        assert format_of(f"{line}\n{render_gate_steps(STEPS)}") == number

    @pytest.mark.parametrize(
        "parse", [parse_static_routes_script, parse_check_script, parse_probe_script, parse_guard_unit]
    )
    @pytest.mark.parametrize("text", ["", "configuration=(\n", "configuration=(\n  nonsense\n)\n"])
    def test_anything_else_is_refused(self, parse: Callable[[str], object], text: str) -> None:
        """Text that was not rendered here is a ValueError."""
        with pytest.raises(ValueError, match=r"no data block|is not a setting|does not name"):
            parse(text)


class TestValuesAreDataOnly:
    """No config value adds or changes a line outside the data block, and the block holds nothing but words."""

    @given(configs(), configs())
    def test_the_body_is_always_the_same(self, one: HostRoutingConfig, other: HostRoutingConfig) -> None:
        """Every configuration gives the same text outside the data block."""
        for a, b in zip(scripts(one), scripts(other), strict=True):
            assert block_of(a)[1] == block_of(b)[1]

    @given(configs())
    def test_the_block_is_quoted_words(self, config: HostRoutingConfig) -> None:
        """Every line of the block is one word in single quotes, of letters that mean nothing to a shell."""
        for text in scripts(config):
            for line in block_of(text)[0]:
                assert line.startswith("  '")
                assert line.endswith("'")
                assert not set(line[3:-1]) & set("'\"\\$`&;|<>(){}[]!#~\n\t")

    @given(st.text(max_size=20))
    def test_what_no_config_can_hold_is_refused_all_the_same(self, text: str) -> None:
        """The renderer does not rely on its input: a letter that could mean something is a ValueError."""
        config = HostRoutingConfig(route_overlap=RouteOverlapConfig(["10.0.0.0/8"], "", ["eth0"]))
        object.__setattr__(config.route_overlap, "expected_devs", (text,))
        try:
            script = render_check_script(config)
        except ValueError:
            return
        assert f"  'device {text}'" in block_of(script)[0]
        assert set(text) <= set('ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-/*?=@:;,!{}" ')

    @pytest.mark.linux
    @settings(max_examples=10, deadline=None)
    @given(configs())
    def test_bash_reads_the_same_words(self, config: HostRoutingConfig) -> None:
        """Bash takes the block for exactly the words that were rendered, wherever it runs."""
        for text in scripts(config):
            lines = [line[3:-1] for line in block_of(text)[0]]
            block = "\n".join(["configuration=(", *block_of(text)[0], ")", 'printf "%s\\n" "${configuration[@]}"'])
            done = subprocess.run(["bash", "-c", block], capture_output=True, text=True, check=True, cwd="/etc")
            assert done.stdout.splitlines() == lines


def words_of(script: str, key: str) -> list[list[str]]:
    """The words of each setting with this key."""
    lines = (line.strip(" '").split() for line in block_of(script)[0])
    return [words for first, *words in lines if first == key]


class TestSettings:
    """What is in a script's data block besides the configuration."""

    def test_a_route_of_few_words(self) -> None:
        """What is taken from the default route is not there; a word without its name is refused."""
        config = HostRoutingConfig(StaticRoutesConfig(True, [StaticRoute("172.16.0.0/17")]))
        text = render_static_routes_script(config)
        assert words_of(text, "route") == [["172.16.0.0/17"]]
        with pytest.raises(ValueError, match="shorter"):
            parse_static_routes_script(text.replace("172.16.0.0/17'", "172.16.0.0/17 via'"))

    def test_what_is_around_them(self) -> None:
        """Before them are comments without gaps, after them what the script includes; one that is missing is named."""
        text = SCRIPTS["static-routes"]()
        head = text.partition("configuration=(")[0].splitlines()
        assert head[-2].startswith("# Why it does what it does")
        asset = "\n".join(asset_lines("static-routes.sh")).partition("configuration=(")[0].splitlines()
        assert [*head[:-2], head[-1]] == [line for line in asset if line]
        assert "\nnap() {\n" in text
        with pytest.raises(ValueError, match="the script has no setting 'wait'"):
            parse_static_routes_script(re.sub(r"  'wait .*'\n", "", text))

    def test_names_and_blocks_of_a_check(self) -> None:
        """The check knows the names of protocols, and the routes of CNIs; eight words are in a line, each once."""
        for key, some, other in (
            ("protocols", {"2/kernel", "11/zebra", "213/hostrouting"}, "200/200"),
            ("pods", {"6/12/*"}, ""),
        ):
            lines = words_of(SCRIPTS["check-route-overlap"](), key)
            words = [word for line in lines for word in line]
            assert [len(line) for line in lines[:-1]] == [8] * (len(lines) - 1)
            assert len(words) == len({*words})
            assert some <= {*words}
            assert other not in words


class TestTexts:
    """Laws for every rendered text."""

    @given(configs())
    def test_deterministic_and_ended(self, config: HostRoutingConfig) -> None:
        """Two renderings are equal; a text ends with one newline, without trailing blanks or carriage returns."""
        for text, again in zip(texts(config), texts(config), strict=True):
            assert text == again
            assert text.endswith("\n")
            assert not text.endswith("\n\n")
            assert not [line for line in text.splitlines() if line != line.rstrip()]
            assert "\r" not in text

    def test_no_unit_requires_another(self) -> None:
        """No unit or drop-in has a setting that could stop a running machine."""
        for text in (*units().values(), render_gate_drop_in()):
            for word in ("Requires", "Requisite", "BindsTo", "PartOf", "RequiredBy", "RemainAfterExit", "Before="):
                assert word not in text

    def test_units_ask_the_gate_before_anything_else(self) -> None:
        """The drop-in has one command, which must succeed, and says after what; it sorts before those of others."""
        text = render_gate_drop_in().splitlines()
        assert text[-1].startswith("ExecStartPre=+/bin/bash -pc '")
        assert text[-1].endswith("; exit 1' /etc/hostrouting/host-routing-gate.sh ask %n")
        assert "After=network-online.target static-routes.service host-routing-gate.service" in text
        assert "Wants=network-online.target" in text
        assert HostLayout().gate_drop_in().rpartition("/")[2] < "10-other.conf"

    def test_what_each_unit_is_given(self) -> None:
        """A unit is ordered after what could undo its work; its time is the wait of its script and some more.

        The gate has less than the 90 s that systemd gives the start of a machine by default.
        """
        for name, text in units().items():
            lines = [line.partition("=") for line in text.splitlines()]
            assert [tuple(value for key, _, value in lines if key == each) for each in GIVEN] == GIVEN_TO[name], name
        assert "TimeoutStartSec=180\n" in render_check_unit(wait=100)

    def test_no_start_is_left_out(self) -> None:
        """One of our units does its work anew at every start, however often it is started."""
        for name, text in units().items():
            assert f"Type={'notify' if name == HostLayout.guard_unit else 'oneshot'}\n" in text
            assert "StartLimitIntervalSec=0\n" in text

    def test_another_layout(self) -> None:
        """Paths are those of the layout, as the host itself sees them."""
        layout = HostLayout(
            root="/mnt", config_directory="/etc/other", state_directory="/run/other/place", runtime_directory="/run/own"
        )
        assert f"ExecStart={SHELL} /etc/other/static-routes.sh\n" in render_routes_unit(layout)
        assert f"ExecStart={SHELL} /etc/other/check-route-overlap.sh\n" in render_check_unit(layout)
        assert "RuntimeDirectory=other/place\n" in render_check_unit(layout)
        assert "  'state /run/other/place'" in render_check_script(ODD, layout=layout).splitlines()
        assert "bring /etc/other back" in render_gate_unit(layout)
        assert " /etc/other/host-routing-gate.sh\n" in render_gate_unit(layout)
        assert "RuntimeDirectory=other/place own\n" in render_gate_unit(layout)
        assert " /etc/other/host-routing-gate.sh ask %n\n" in render_gate_drop_in(layout)
        guard = render_guard_unit("/usr/bin/hostrouting", layout=layout)
        assert "RuntimeDirectory=other/place own\n" in guard
        assert "ReadWritePaths=/run/other/place /run/own\n" in guard

    def test_files_of_another_layout(self) -> None:
        """The gate's script has the paths of the layout."""
        layout = HostLayout(config_directory="/etc/other", runtime_directory="/run/own")
        block = block_of(render_gate_script(layout))[0]
        assert "  'steps /etc/other/host-routing-gate.conf'" in block
        assert "  'lock /run/own/host-routing.lock'" in block


@pytest.mark.linux
class TestReaders:
    """The programs that read these texts find nothing to complain about."""

    @pytest.mark.parametrize("which", SCRIPTS)
    def test_bash(self, which: str) -> None:
        """Bash parses the scripts."""
        subprocess.run(["bash", "-n"], input=SCRIPTS[which](), text=True, check=True)

    @pytest.mark.needs("shellcheck")
    @pytest.mark.parametrize("which", SCRIPTS)
    def test_shellcheck(self, which: str) -> None:
        """Shellcheck has nothing to say about the scripts, as they are rendered, but what the asset allows."""
        allowed = re.findall(r"shellcheck disable=(\S+)", "\n".join(asset_lines(f"{which}.sh")))
        command = ["shellcheck", *(f"--exclude={code}" for code in allowed), "-"]
        done = subprocess.run(command, input=SCRIPTS[which](), text=True, capture_output=True, check=False)
        assert done.stdout == ""

    @pytest.mark.needs("mawk")
    @pytest.mark.parametrize("which", sorted(SCRIPTS.keys() - {"snapshot"}))
    def test_without_comments(self, which: str) -> None:
        """What is installed has a head and headings; for bash and for awk, it is the same program as the asset."""
        installed, whole = SCRIPTS[which](), "\n".join(asset_lines(f"{which}.sh"))
        head, body = (part.splitlines() for part in installed.split("\nconfiguration=(\n"))
        assert len(head) <= 2 + 10 + 1
        assert [line for line in body if not line.strip() or line.lstrip().startswith("#")] == re.findall(
            r"(?m)^# --- .*$", whole
        )
        assert as_parsed(installed) == as_parsed(whole)

    @pytest.mark.needs("systemd-analyze")
    def test_systemd_analyze(self, tmp_path: Path) -> None:
        """`systemd-analyze verify` is silent about the units and about a machine with the drop-in."""
        program = tmp_path / "program"
        program.touch(mode=0o755)
        unit = tmp_path / "units"
        drop_ins = unit / "systemd-nspawn@.service.d"
        drop_ins.mkdir(parents=True)
        for name, text in units().items():
            (unit / name).write_text(re.sub(r"(?m)^ExecStart=.*$", f"ExecStart={program}", text))
        (unit / "systemd-nspawn@kube1.service").write_text(f"[Service]\nExecStart={program}\n")
        (drop_ins / "00-host-routing.conf").write_text(render_gate_drop_in())
        names = [*units(), "systemd-nspawn@kube1.service"]
        done = subprocess.run(
            ["systemd-analyze", "verify", *(str(unit / name) for name in names)],
            # Without it, the drop-ins that an administrator of this host has written count, too.
            env={**os.environ, "SYSTEMD_UNIT_PATH": f"{unit}:/usr/lib/systemd/system:/lib/systemd/system"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")


def test_assets_are_scripts_of_their_own() -> None:
    """Every asset is included by a script or is one."""
    included = {
        line.split()[1] for path in ASSETS.glob("*.sh") for line in path.read_text().splitlines() if "#include" in line
    }
    assert {path.name for path in ASSETS.iterdir()} == included | {f"{name}.sh" for name in SCRIPTS}


def test_facts_that_other_files_own() -> None:
    """The usual metrics are settings of the scripts that need them, and in no script's body; nor are reserved ranges."""
    usual = {f"  'metric {family} {metric}'" for family, metric in DEFAULT_METRIC.items()}
    block, body = block_of(SCRIPTS["probe-rewrite"]())
    assert f"  'metric {DEFAULT_METRIC[6]}'" in block
    assert "1024" not in "\n".join(body)
    block, body = block_of(SCRIPTS["static-routes"]())
    assert usual <= set(block)
    assert not re.search(r"1024|\b(127|224)\.0|fe80|ff00", "\n".join(body))


def test_assets_can_be_read_on_a_console() -> None:
    """No line of a script is wider than 120 letters, and none is longer than 439 lines."""
    for path in ASSETS.iterdir():
        lines = path.read_text().splitlines()
        assert len(lines) <= 439, path.name
        assert not [line for line in lines if len(line) > 120], path.name
