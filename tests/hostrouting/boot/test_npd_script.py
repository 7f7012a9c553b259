"""npd.sh: in every shell, its answers are byte for byte those of `hostrouting.fleet.npd`, and it needs only head and date."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from datetime import datetime, timezone
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hostrouting.boot import render_npd_script
from hostrouting.fleet.npd import FRESH, QUESTIONS, PluginResult, Written, decide
from hostrouting.tasks import Configure
from hostrouting.tasks.guard import Look, Problem, Repair, State
from hostrouting.tasks.guard.pace import Bucket, Fight
from hostrouting.testing import FakeHost, MemoryBackend, cni_node, h200, plain_vm
from tests.support.posix_shells import SHELLS, each_shell
from tests.support.tasks import LAYOUT, config, run

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.linux

SCRIPT = render_npd_script()
DAY = 86_400
WORDS = st.sampled_from(
    [
        "172.16.0.0/17: another route has the same destination and metric: [172.16.0.0/17 dev ib0 proto static]",
        "OVERLAP: expected CIDR 172.16.0.0/16 (172.16.0.0–172.16.255.255) routes via ib0",  # noqa: RUF001
        "NO-ROUTE: it has none",
        "and 4 more like these; all are in route-overlap.json",
        "x: foo,and bar",
        'it says "ok", "verdict": "ok", and "]"',
        "a\\b",
        "ALL CAPS without a colon",
        "check-route-overlap: no netlink",
        "",
    ]
)
TEXTS = WORDS | st.text(max_size=40)
NAMES = st.sampled_from(["check-route-overlap", "guard", "configure-static-routes", "rewrite-probe-source, a table"])
LOOKS = st.builds(
    Look,
    verdict=st.just("overlap") | st.sampled_from(["ok", "undecided", "no-default-route", ""]),
    problems=st.lists(TEXTS.filter(bool).map(Problem), max_size=4).map(tuple),
    failures=st.just({}) | st.dictionaries(NAMES, TEXTS, max_size=2),
)
FIGHTS = st.just(()) | TEXTS.filter(bool).map(
    lambda key: (Fight(Repair(key, "[a]", "[b]"), 5, Bucket(1, 1, at=0), (), 0),)
)
# Not next to a limit: a second may pass between the two answers.
AGES = st.sampled_from([0, 60, FRESH - 60, -60]) | st.sampled_from([FRESH + 60, -FRESH - 60, DAY - 60, DAY + 60])


def report(kernel: MemoryBackend, *cidrs: str, drop: str = "") -> str:
    """The report of a check of this host, as the task writes it; `drop` is a device to delete first."""
    host = FakeHost(kernel=kernel)
    if drop:
        kernel.set_down(drop)
    run(Configure(config(cidrs=cidrs, mode="WARN"), host=host, wait=0))
    return host.files.texts[LAYOUT.report_path]


REPORTS = {
    "overlap": report(h200(), "10.0.0.0/8", "172.16.0.0/17", "172.16.128.0/17"),
    "overlap in IPv6": report(h200(dual_stack=True), "172.16.0.0/16", "fd16::/48"),
    "ok": report(plain_vm(), "10.0.0.0/8"),
    "pods": report(cni_node(), "10.0.0.0/8"),
    "no default route": report(MemoryBackend(), "10.0.0.0/8"),
    "other verdict": json.dumps({"schema": "hostrouting/check/1", "verdict": "new", "findings": []}) + "\n",
    "other schema": json.dumps({"schema": "hostrouting/check/9", "verdict": "ok"}) + "\n",
    "empty": "",
}
KINDS = ("overlap", "no-route", "unreachable", "blackhole", "prohibit")
DEVS = (None, "ib0", "bond0.100@x", "é", 'a"b', "a\\b", "")


@st.composite
def reports(draw: st.DrawFn) -> str:
    """A report of a check, or of one with other findings, in the form in which both writers print it."""
    if draw(st.booleans()):
        return draw(st.sampled_from(sorted(REPORTS.values())))
    document = json.loads(REPORTS["overlap"])
    for finding in document["findings"]:
        finding["kind"] = draw(st.sampled_from(KINDS))
        finding["via"]["dev"] = draw(st.sampled_from(DEVS))
    if draw(st.booleans()):
        found, document["findings"] = document["findings"], []
        rest = {key: document.pop(key) for key in ("repair", "unsafe", "notes")}
        packets = [{"sources": ["10.0.0.0/8"], "devs": ["veth0"], "exist": True}]
        document["pods"] = [{"verdict": "overlap", "packets": packets, "findings": found}]
        document |= rest
    return json.dumps(document) + "\n"


def put(directory: Path, name: str, text: str | None) -> None:
    """Write this file, or delete it."""
    path = directory / name
    path.unlink(missing_ok=True)
    if text is not None:
        path.write_text(text)


def answer_of(shell: list[str], directory: Path, *words: str) -> PluginResult:
    """What the script says about this directory; it says nothing else."""
    done = subprocess.run(
        [*shell, "-s", "--", "--directory", str(directory), *words],
        input=SCRIPT.encode(),
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert done.stderr == b""
    line = done.stdout.decode("ascii")
    assert line.endswith("\n")
    assert line.count("\n") == 1
    return PluginResult(done.returncode, line[:-1])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    look=st.none() | LOOKS,
    fights=FIGHTS,
    report=st.none() | reports(),
    age=AGES,
    question=st.sampled_from([*QUESTIONS]),
)
def test_as_in_python(  # noqa: PLR0917  Hypothesis passes them by name
    tmp_path: Path, look: Look | None, fights: tuple[Fight, ...], report: str | None, age: int, question: str
) -> None:
    """Whatever the guard and the check have written, and however old it is, each shell answers as Python does."""
    now = int(time.time())
    at = datetime.fromtimestamp(now - age, timezone.utc)
    state = None if look is None else State(since=at).after(look, fights, at)
    guard = None if state is None else json.dumps(state.to_mapping()) + "\n"
    put(tmp_path, "guard.json", guard)
    put(tmp_path, "route-overlap.json", report)
    if report is not None:
        os.utime(tmp_path / "route-overlap.json", (now - age, now - age))
    files = Written(directory=str(tmp_path), guard=guard, report=report, reported=now - age)
    expected = decide(question, files, now=now, max_age=DAY)
    quoted = ("FAILED: ", "UNDONE: ", "NOT REPAIRED: ", "UNKNOWN: there is no directory ")
    assert len(expected.line.partition("; ")[0]) <= 80 or expected.line.startswith(quoted)
    assert {tuple(shell): answer_of(shell, tmp_path, "--about", question) for shell in SHELLS} == {
        tuple(shell): expected for shell in SHELLS
    }


@each_shell
@pytest.mark.parametrize("name", REPORTS)
def test_each_report(shell: list[str], name: str, tmp_path: Path) -> None:
    """Without a guard, each report that a check writes is answered as in Python."""
    put(tmp_path, "route-overlap.json", REPORTS[name])
    os.utime(tmp_path / "route-overlap.json", (1_700_000_000, 1_700_000_000))
    files = Written(directory=str(tmp_path), report=REPORTS[name], reported=1_700_000_000)
    expected = decide("verdict", files, now=int(time.time()), max_age=999_999_999)
    assert answer_of(shell, tmp_path, "--max-age=999999999") == expected


@each_shell
@pytest.mark.parametrize(
    ("name", "marker"),
    [
        ("ok", "ok\n"),
        ("ok", "undecided\nwhy\n"),
        ("ok", ""),
        ("detected", "no-default-route\n"),
        ("detected", "OVERLAP: expected CIDR 172.16.0.0/16 routes via ib0\n"),
    ],
)
def test_each_marker(shell: list[str], name: str, marker: str, tmp_path: Path) -> None:
    """The check at boot leaves a marker and no report: it is answered as in Python."""
    put(tmp_path, f"route-overlap.{name}", marker)
    now = int(time.time()) - 60
    os.utime(tmp_path / f"route-overlap.{name}", (now, now))
    expected = decide("verdict", Written(directory=str(tmp_path), marker=marker, reported=now), now=now + 60)
    assert expected.status == {"ok\n": "ok"}.get(marker, "unknown" if name == "ok" else "problem")
    assert answer_of(shell, tmp_path) == expected


@each_shell
@pytest.mark.parametrize(("kind", "dev"), [*(("overlap", dev) for dev in DEVS), *((kind, "ib0") for kind in KINDS[1:])])
def test_the_first_finding(shell: list[str], kind: str, dev: str | None, tmp_path: Path) -> None:
    """The first of two findings is told, with its own device or none, as in Python."""
    document = json.loads(REPORTS["overlap"])
    first, second = document["findings"]
    first["kind"], first["via"]["dev"], second["via"]["dev"] = kind, dev, "ib7"
    now = int(time.time())
    text = json.dumps(document)
    put(tmp_path, "route-overlap.json", text)
    os.utime(tmp_path / "route-overlap.json", (now, now))
    expected = decide("verdict", Written(directory=str(tmp_path), report=text, reported=now), now=now)
    assert "172.16.0.0/17" in expected.line
    assert answer_of(shell, tmp_path) == expected


@each_shell
def test_moments(shell: list[str], tmp_path: Path) -> None:
    """Each day of many years is the same number of seconds as in Python: the function is tried by itself."""
    function = SCRIPT[SCRIPT.index("read_moment() {") : SCRIPT.index("\n}\n", SCRIPT.index("read_moment() {")) + 3]
    days = range(0, 150 * 366, 97)
    moments = [datetime.fromtimestamp(day * DAY + day % DAY, timezone.utc) for day in days]
    lines = [f"{it:%Y-%m-%dT%H:%M:%SZ}" for it in moments]
    loop = 'while read -r line; do read_moment "$line" && echo "$seconds"; done'
    script = tmp_path / "moments.sh"
    script.write_text(f"{function}{loop}\n")
    done = subprocess.run(
        [*shell, str(script)], input="\n".join([*lines, ""]), capture_output=True, text=True, check=False, timeout=60
    )
    assert done.stdout.split() == [str(int(it.timestamp())) for it in moments]


@each_shell
def test_long_files(shell: list[str], tmp_path: Path) -> None:
    """Of thousands of problems, after as many findings as there can be, the first one is told.

    To search all of this text, a shell needs half a minute.
    """
    now = datetime.now(timezone.utc).replace(microsecond=0)
    finding = Problem(f"OVERLAP: expected CIDR fd00::/48 ({'f' * 39} to {'f' * 39}) routes via {'x' * 100}")
    others = (Problem(f"10.{n // 256}.{n % 256}.0/24: another route is there") for n in range(20_000))
    problems = (*[finding] * 20, Problem("and 9,999 more"), *others)
    guard = json.dumps(State(since=now).after(Look(verdict="ok", problems=problems), (), now).to_mapping())
    put(tmp_path, "guard.json", guard)
    assert answer_of(shell, tmp_path, "--about", "repairs").line.startswith("NOT REPAIRED: 10.0.0.0/24: another route")
    assert answer_of(shell, tmp_path).code == 0


@each_shell
def test_no_directory(shell: list[str], tmp_path: Path) -> None:
    """If the directory of the host is not mounted, that is said."""
    missing = tmp_path / "absent"
    expected = decide("verdict", Written(directory=str(missing), is_there=False), now=0)
    assert answer_of(shell, missing) == expected


@each_shell
@pytest.mark.parametrize(
    "words",
    [
        ("--about", "all"),
        ("--about",),
        ("--max-age", "1h"),
        ("--max-age", "9" * 30),
        ("--directory", "run"),
        ("-v",),
        ("x",),
    ],
)
def test_bad_options(shell: list[str], words: tuple[str, ...], tmp_path: Path) -> None:
    """A mistake in the options is unknown, and the line names it."""
    answer = answer_of(shell, tmp_path, *words)
    assert answer.code == 3
    assert answer.line.startswith(
        ("UNKNOWN: the options are --about verdict|repairs, ", "UNKNOWN: --max-age takes a number")
    )


@each_shell
@pytest.mark.parametrize("name", ["guard.json", "route-overlap.json"])
def test_not_a_file(shell: list[str], name: str, tmp_path: Path) -> None:
    """What is not a file is unknown, and not read: a fifo could block."""
    os.mkfifo(tmp_path / name)
    answer = answer_of(shell, tmp_path)
    assert (answer.code, answer.line.partition(";")[0]) == (3, f"UNKNOWN: {name} cannot be read")


@each_shell
@pytest.mark.parametrize("broken", ["head", "date"])
def test_a_program_is_missing(shell: list[str], broken: str, tmp_path: Path) -> None:
    """Without head or date the answer is unknown: never a problem, and never fine."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in {"head", "date"} - {broken}:
        (tools / name).symlink_to(shutil.which(name) or "")
    put(tmp_path, "route-overlap.json", REPORTS["ok"])
    script = SCRIPT.replace('PATH="$PATH:/usr/bin:/bin"', f"PATH={tools}")
    assert script != SCRIPT
    program = [shutil.which(shell[0]) or "", *shell[1:]]
    (tmp_path / "npd.sh").write_text(script)
    done = subprocess.run(
        [*program, str(tmp_path / "npd.sh"), "--directory", str(tmp_path)],
        env={"PATH": str(tools)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout[:9]) == (3, "UNKNOWN: ")


@each_shell
def test_cut_short(shell: list[str], tmp_path: Path) -> None:
    """A script of which the end is missing is unknown: never a problem, and never fine."""
    put(tmp_path, "route-overlap.json", REPORTS["ok"])
    lines = SCRIPT.splitlines(keepends=True)
    for end in range(2, len(lines), 9):
        (tmp_path / "npd.sh").write_text("".join(lines[:end]))
        done = subprocess.run(
            [*shell, str(tmp_path / "npd.sh"), "--directory", str(tmp_path)],
            capture_output=True,
            check=False,
            timeout=60,
        )
        assert (done.returncode in {0, 1}, done.stdout) == (False, b""), end


@each_shell
def test_its_reader_is_gone(shell: list[str], tmp_path: Path) -> None:
    """If the line cannot be written, the exit code still says it."""
    put(tmp_path, "route-overlap.json", REPORTS["ok"])
    (tmp_path / "npd.sh").write_text(SCRIPT)
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*shell, str(tmp_path / "npd.sh"), "--directory", str(tmp_path)],
            stdout=full,
            stderr=subprocess.DEVNULL,
            check=False,
            timeout=60,
        )
    assert done.returncode == 0
