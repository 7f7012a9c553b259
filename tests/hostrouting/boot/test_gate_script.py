"""host-routing-gate.sh, run by bash: what it lets pass, what it refuses, and what it waits for."""

from __future__ import annotations

import fcntl
import os
import re
import subprocess
import threading
import time
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from hostrouting.boot.gate_files import GateStep, StepKind, parse_gate_steps, render_gate_script, render_gate_steps
from hostrouting.boot.gate_state import opening_findings
from hostrouting.host.host import Host
from hostrouting.host.layout import HostLayout
from tests.support.awks import put_before
from tests.support.examples import scaled
from tests.support.tasks import LAYOUT
from tests.support.waiting import await_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

pytestmark = pytest.mark.linux

UNIT = LAYOUT.gate_unit
OK, BAD = "true", "false"
KINDS: tuple[StepKind, ...] = ("requires", "wants", "changing")


@attrs.frozen
class Place:
    """A folder that stands for a host: the gate's script with its paths changed to those here, and other scripts."""

    folder: Path
    text: str
    """The script, with the paths of this folder."""

    @classmethod
    def below(cls, folder: Path) -> Place:
        """A host whose machines wait only for the gate itself."""
        text = render_gate_script()
        for path in (LAYOUT.config_directory, LAYOUT.runtime_directory):
            text = text.replace(f" {path}", f" {folder}")
        text = text.replace(f" {LAYOUT.unit_directory}'", f" {folder}/units'")
        place = cls(folder, text)
        place.drop_in.parent.mkdir(parents=True)
        place.drop_in.touch()
        place.lock.touch()
        return place

    @property
    def drop_in(self) -> Path:
        """Stands for the drop-in."""
        return self.folder / "units/kubelet.service.d/00-host-routing.conf"

    @property
    def steps(self) -> Path:
        """The list of steps."""
        return self.folder / "host-routing-gate.conf"

    @property
    def lock(self) -> Path:
        """The file whose lock a run of hostrouting holds."""
        return self.folder / "host-routing.lock"

    @property
    def log(self) -> list[str]:
        """What was run, in order, with its arguments."""
        path = self.folder / "log"
        return path.read_text().splitlines() if path.exists() else []

    def put(self, steps: list[GateStep], outcomes: Mapping[str, str] | None = None) -> None:
        """Make the list be these steps, and their scripts do this; those that have no outcome are not there."""
        (self.folder / "log").unlink(missing_ok=True)
        for path in self.folder.glob("*.sh"):
            path.unlink()
        self.steps.write_text(render_gate_steps(steps))
        for name, body in (outcomes or {}).items():
            (self.folder / f"{name}.sh").write_text(f'echo "{name} $*" >>"{self.folder}/log"\n{body}\nexit $?\n')

    def run(self, *arguments: str, text: str = "", timeout: float = 30) -> subprocess.CompletedProcess[str]:
        """Run the script; a text stands for a copy of it that was changed."""
        script = self.folder / "gate"
        script.write_text(text or self.text)
        return subprocess.run(
            ["/bin/bash", "-pc", '. "$0"; exit 1', str(script), *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=timeout,
        )

    def passes(self, text: str = "") -> bool:
        """Whether a machine would start. A refusal has the status 1 and one line of its own."""
        done = self.run(text=text)
        assert done.returncode in {0, 1}, done.stderr
        assert done.stdout == ""
        said = [
            line
            for line in done.stderr.splitlines()
            if line.startswith("<3>host-routing-gate: kubelet.service must not start: ")
        ]
        assert len(said) == done.returncode, done.stderr
        return done.returncode == 0

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock, as a run of hostrouting does."""
        with self.lock.open("w") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX)
            yield


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A host with the gate's script."""
    return Place.below(tmp_path)


def step(line: str) -> GateStep:
    """The step that a line of the list describes."""
    return GateStep.parse(line)


again = settings(deadline=None, max_examples=scaled(125), suppress_health_check=[HealthCheck.function_scoped_fixture])
NAMES = st.sampled_from(["a", "b-1", "static-routes", "2"])


class TestSteps:
    """A machine starts only if every script that is required succeeds."""

    @again
    @given(
        steps=st.lists(st.builds(GateStep, st.integers(0, 99), st.sampled_from(KINDS), NAMES), max_size=5),
        outcomes=st.dictionaries(NAMES, st.sampled_from([OK, BAD, "exit 77", "kill -9 $$"])),
    )
    def test_every_required_one(self, place: Place, steps: list[GateStep], outcomes: dict[str, str]) -> None:
        """The gate runs the scripts in order, and passes when every required one succeeds and none is changing.

        Only the first one gets the whole patience. Kills: a required step that does not shorten it.
        """
        place.put(steps, outcomes)
        expected, ran = True, []
        for place_in_list, step in enumerate(steps):
            if step.kind != "changing" and step.name in outcomes:
                ran.append(f"{step.name} {15 if place_in_list else 60}")
            if step.kind == "changing" or (step.kind == "requires" and outcomes.get(step.name) != OK):
                expected = False
                break
        assert place.passes() == expected
        assert place.log == ran

    def test_patience(self, place: Place) -> None:
        """The first script may wait for 60 s, each after it for 15: a machine's start takes 90 s at most."""
        place.put([step("1 wants a"), step("2 requires b"), step("3 requires c")], dict.fromkeys("abc", OK))
        assert place.passes()
        assert place.log == ["a 60", "b 15", "c 15"]

    @pytest.mark.parametrize("text", ["", "#!/bin/bash\n", "true\n"])
    def test_a_script_that_does_not_say_how_it_ends(self, place: Place, text: str) -> None:
        """A required script that ends without `exit` has failed: an empty one is not one that found nothing wrong."""
        place.put([step("50 requires a")], {"a": OK})
        (place.folder / "a.sh").write_text(text)
        done = place.run()
        assert done.returncode == 1
        assert f"<3>{place.folder}/a.sh is missing or incomplete; write it again with: " in done.stderr

    def test_no_step(self, place: Place) -> None:
        """A list without steps passes, and is not kept waiting by a run of hostrouting, which removes the gate."""
        place.put([])
        with place.locked():
            assert place.passes()

    @pytest.mark.parametrize("body", ["exit 1", "kill -9 $$", "sleep 0.3 & exit 3", "if", 'printf "%s" "$'])
    def test_a_wanted_script_that_fails(self, place: Place, body: str) -> None:
        """However a wanted script fails, the machine starts anyway, and a warning names the script."""
        place.put([step("60 wants a")], {"a": body})
        done = place.run()
        assert done.returncode == 0
        assert "<4>host-routing-gate: a.sh failed; kubelet.service may start anyway" in done.stderr

    def test_a_wanted_script_that_hangs(self, place: Place) -> None:
        """A wanted script that does not end lets the machine start, too, after its patience."""
        place.put([step("60 wants a")], {"a": f"echo $$ >{place.folder}/pid; exec sleep 60 2>/dev/null"})
        quick = place.text.replace("patience=60", "patience=1").replace("patience + 5", "patience")
        assert quick.count("patience=1\n") == 1
        begin = time.monotonic()
        script = place.folder / "gate"
        script.write_text(quick)
        with (place.folder / "said").open("w") as said:
            done = subprocess.run(
                ["/bin/bash", "-pc", '. "$0"; exit 1', str(script)], stderr=said, check=False, timeout=50
            )
        await_file(place.folder / "pid")
        os.kill(int((place.folder / "pid").read_text()), 9)
        assert done.returncode == 0
        assert 0.9 < time.monotonic() - begin < 45
        assert "<4>host-routing-gate: a.sh did not end in time" in (place.folder / "said").read_text()

    def test_what_the_scripts_say(self, place: Place) -> None:
        """What the scripts print comes through; they are given no input, and nothing of what bash finds in its surroundings."""
        body = '[[ $(cat) == "" ]] && echo "<4>out" && echo "<3>err" >&2 && [[ $(trap -p EXIT TERM) == "" ]]'
        place.put([step("50 requires a"), step("60 wants b")], {"a": body, "b": body})
        done = place.run()
        assert done.returncode == 0
        assert sorted((done.stdout + done.stderr).splitlines()) == ["<3>err", "<3>err", "<4>out", "<4>out"]


class TestList:
    """A list that is not one lets no machine start."""

    @again
    @given(
        lines=st.lists(
            st.one_of(
                st.sampled_from(
                    ["", "end", "50", "50 requires", "50 requires ", "x requires a", "requires a", "#", "# a"]
                ),
                st.sampled_from(
                    ["50 requires a b", "50 requires ../a", "50 wants A", " 50 requires a", "50  requires a"]
                ),
                st.sampled_from(["50 requires a\r", "50 requires a\f", "50 Requires a", "50 needs a", "50 requires a"]),
                st.text("aend 05#-\t\r\f'\"$", max_size=9),
                st.builds(lambda rank, name: f"{rank} wants {name}", st.integers(0, 99), NAMES),
            ),
            max_size=4,
        ),
        last=st.sampled_from(["end\n", "end", "", "en", "end \n", "end\n\n", "# end\n"]),
    )
    @example(lines=["end", "50 requires a"], last="end\n")
    def test_the_same_as_is_parsed(self, place: Place, lines: list[str], last: str) -> None:
        """The script takes the same lists as parse_gate_steps: any other line, and a list cut short, is refused."""
        text = "".join(f"{line}\n" for line in lines) + last
        place.put([], dict.fromkeys(["a", "b-1", "static-routes", "2"], OK))
        place.steps.write_text(text, newline="")
        try:
            steps = parse_gate_steps(text)
        except ValueError:
            assert not place.passes()
            return
        expected = all(step.kind == "wants" or step.name in {"a", "b-1", "static-routes", "2"} for step in steps)
        assert place.passes() == (expected and not any(step.kind == "changing" for step in steps))

    def test_cut_short(self, place: Place) -> None:
        """A list that is cut anywhere is refused, with a remedy."""
        place.put([step("50 requires a"), step("60 wants a")], {"a": OK})
        whole = place.steps.read_text()
        for length in range(len(whole) - 1):
            place.steps.write_text(whole[:length])
            done = place.run()
            assert done.returncode == 1, whole[:length]
            assert f"{place.steps} is incomplete; write it again with: hostrouting apply --config FILE" in done.stderr
        assert place.log == []

    def test_missing(self, place: Place) -> None:
        """Without a list no machine starts; where the drop-in is gone, too, hostrouting was removed, and it does."""
        done = place.run()
        assert (done.returncode, "is missing; write it again with: hostrouting apply --config FILE" in done.stderr) == (
            1,
            True,
        )
        place.drop_in.unlink()
        assert place.passes()

    def test_a_folder_in_its_place(self, place: Place) -> None:
        """Something that is not a file is not accepted as a list."""
        place.steps.mkdir()
        assert not place.passes()

    def test_a_step_that_is_changing(self, place: Place) -> None:
        """A step that is changing lets no machine start, and says which, and what to do."""
        place.put([step("50 changing a")], {"a": OK})
        done = place.run()
        assert done.returncode == 1
        assert (
            "a run of hostrouting did not finish changing a.sh; run it again: hostrouting apply --config FILE"
            in done.stderr
        )
        assert place.log == []

    @again
    @given(value=st.text("abc /.;|&$`()<>*?'\"\\\t!~#{}[]=-", min_size=1, max_size=20))
    @example(value="$(touch marker)")
    @example(value="a; touch marker")
    @example(value="`touch marker`")
    @example(value="*")
    def test_a_value_is_never_run(self, place: Place, value: str) -> None:
        """The shell does not interpret the list: only scripts of the folder are run, by name."""
        place.put([], {"a": OK, "b": OK, "c": OK})
        before = set(place.folder.iterdir()) | {place.folder / "gate", place.folder / "log"}
        place.steps.write_text(f"50 wants {value}\nend\n")
        names = set(value) <= set("abc-")
        assert place.passes() == names
        place.steps.write_text(f"{value}\nend\n")
        assert place.passes() == value.startswith("#")
        assert set(place.folder.iterdir()) <= before
        assert not Path("marker").exists()
        assert not (place.folder / "marker").exists()


class TestLock:
    """A run of hostrouting is waited for, and not forever."""

    def test_awaited(self, place: Place) -> None:
        """While a run holds the lock no step is taken; what it leaves in the list is what counts then."""
        place.put([step("50 requires a")], {"a": BAD, "b": OK})

        def finish() -> None:
            time.sleep(0.3)
            assert place.log == []
            place.steps.write_text(render_gate_steps([step("50 requires b")]))
            lock.__exit__(None, None, None)

        lock = place.locked()
        lock.__enter__()
        other = threading.Thread(target=finish)
        begin = time.monotonic()
        other.start()
        passed = place.passes()
        assert time.monotonic() - begin >= 0.3
        other.join()
        assert passed
        assert place.log == ["b 15"]

    def test_held_for_too_long(self, place: Place) -> None:
        """A run that takes longer waits for something: after a while the steps are taken, as the list says by then."""
        place.put([step("50 requires a")], {"a": OK})
        quick = place.text.replace("--timeout 45", "--timeout 1")
        assert quick != place.text
        begin = time.monotonic()
        with place.locked():
            assert place.passes(text=quick)
        assert 0.9 < time.monotonic() - begin < 40
        assert place.log == ["a 15"]
        place.put([step("50 changing a")], {"a": OK})
        with place.locked():
            assert not place.passes(text=quick)

    def test_no_flock(self, place: Place) -> None:
        """If flock cannot be run, the gate says so at once."""
        place.put([step("50 requires a")], {"a": OK})
        done = place.run(text=place.text.replace("flock --shared", "no-flock-here --shared"))
        assert done.returncode == 1
        assert "flock cannot be run (status 127)" in done.stderr

    @pytest.mark.parametrize("kind", ["fifo", "folder"])
    @pytest.mark.parametrize("name", ["lock", "steps"])
    def test_not_a_file(self, place: Place, kind: str, name: str) -> None:
        """What is not a regular file is named at once, and not opened: a fifo would be waited for."""
        place.put([step("50 requires a")], {"a": OK})
        path: Path = getattr(place, name)
        path.unlink()
        os.mkfifo(path) if kind == "fifo" else path.mkdir()
        done = place.run()
        assert done.returncode == 1
        assert f"{path} is not a regular file; remove it" in done.stderr

    def test_not_held_while_scripts_run(self, place: Place) -> None:
        """A run of hostrouting can take the lock while the scripts run: it stops the gate before it changes them."""
        place.put([step("50 requires a")], {"a": f'flock --exclusive --nonblock "{place.lock}" true'})
        assert place.passes()

    def test_several_gates_at_once(self, place: Place) -> None:
        """The gates of several machines do not wait for each other."""
        place.put([step("50 requires a")], {"a": OK})
        with place.lock.open() as stream:
            fcntl.flock(stream, fcntl.LOCK_SH)
            assert place.passes(text=place.text.replace("patience=60\n", "patience=1\n"))

    def test_no_lock(self, place: Place) -> None:
        """After a boot the file of the lock does not exist yet, so the lock is free."""
        place.lock.unlink()
        place.put([step("50 requires a")], {"a": OK})
        assert place.passes()

    def test_removed_meanwhile(self, place: Place) -> None:
        """Where the gate is gone when the lock is let go, the machine starts."""
        place.put([step("50 requires a")], {"a": BAD})
        lock = place.locked()
        lock.__enter__()

        def remove() -> None:
            time.sleep(0.2)
            place.drop_in.unlink()
            place.steps.unlink()
            lock.__exit__(None, None, None)

        other = threading.Thread(target=remove)
        other.start()
        assert place.passes()
        other.join()


class TestScript:
    """The script as a file."""

    @pytest.mark.parametrize("arguments", [(), ("ask",)], ids=["the unit", "ask"])
    def test_cut_short(self, place: Place, arguments: tuple[str, ...]) -> None:
        """A script that is cut anywhere fails, because its second line sets a trap for that.

        Kills: `pass_if_opened` as the name of a function, which begins with that of the function `pass`.
        """
        place.put([step("50 requires a")], {"a": OK})
        # Of `ask` and `scripts` other programs are the beginning: one writes a file, and one waits.
        text = put_before(place.text, dict.fromkeys(["systemctl", "sleep", "as", "script"], "exit 0"), place.folder)
        assert place.run(*arguments, text=text).returncode == 0
        begin, end = text.index(" EXIT ") + len(" EXIT "), len(text.rstrip())
        # Of a name at the beginning of a line, what is left may be the name of a function.
        functions = "|".join(re.findall(r"^(\w+)\(\)", text, re.MULTILINE))
        names = [found.end() for found in re.finditer(rf"^({functions})\B", text, re.MULTILINE)]
        for length in (*range(begin, end, 47), *range(end - 12, end), *names):
            done = place.run(*arguments, text=text[:length])
            assert done.returncode != 0, text[:length][-80:]

    def test_what_the_manager_has_in_its_environment(self, place: Place) -> None:
        """Variables that stop systemctl from acting, or change how bash works, do not reach the scripts.

        Nor does one that has the name of a variable of the gate. Kills: `gated` without its first value.
        """
        test = 'test -z "${SYSTEMD_OFFLINE-}${SYSTEMD_IN_CHROOT-}" -a "$LC_ALL" = C'
        place.put([step("50 requires a"), step("60 wants b")], {"a": test, "b": BAD})
        script = place.folder / "gate"
        script.write_text(place.text)
        bad = place.folder / "bad"
        bad.write_text("exit 0\n")
        environment = {"SYSTEMD_OFFLINE": "1", "SYSTEMD_IN_CHROOT": "1", "LC_ALL": "de_DE.UTF-8", "BASH_ENV": str(bad)}
        environment["gated"] = "other.service"
        done = subprocess.run(
            ["/bin/bash", "-pc", '. "$0"; exit 1', str(script)], env=environment, capture_output=True, check=False
        )
        assert (done.returncode, place.log) == (0, ["a 60", "b 15"])
        assert done.stderr.endswith(b"<4>host-routing-gate: b.sh failed; kubelet.service may start anyway\n")


@attrs.frozen
class Answers:
    """What a systemctl answers: to each start its exit status, the last one for all that follow, and to `show` a text."""

    starts: tuple[int, ...]
    show: str = "LoadState=loaded\nActiveState=inactive\nResult=success\nExecMainExitTimestampMonotonic=0"
    also: str = ":"
    """What happens at a start."""


def ask(place: Place, answers: Answers) -> tuple[subprocess.CompletedProcess[str], list[str], list[str]]:
    """Ask once: how it ended, the calls of systemctl, and the naps."""
    folder = place.folder
    body = f"""
echo "$*" >>{folder}/calls
case $* in
  *show*) cat <<END
{answers.show}
END
  ;;
  *)
    {answers.also}
    starts=({" ".join(map(str, answers.starts))})
    count=$(grep -c start {folder}/calls)
    ((count > ${{#starts[@]}})) && count=${{#starts[@]}}
    exit "${{starts[count - 1]}}"
    ;;
esac
"""
    (folder / "calls").unlink(missing_ok=True)
    (folder / "naps").unlink(missing_ok=True)
    text = put_before(place.text, {"systemctl": body, "sleep": f'echo "$1" >>{folder}/naps'}, folder)
    done = place.run("ask", text=text)
    calls = (folder / "calls").read_text().splitlines()
    naps = (folder / "naps").read_text().split() if (folder / "naps").exists() else []
    return done, calls, naps


NOW = '$(read -r up _ </proc/uptime; echo "${up/./}0000")'
START = f"--no-ask-password start {UNIT}"


def failed(result: str = "exit-code", ended: str = NOW) -> str:
    """What `show` says of a gate that failed."""
    return f"LoadState=loaded\nActiveState=failed\nResult={result}\nExecMainExitTimestampMonotonic={ended}"


def passed(
    state: str = "inactive", result: str = "success", *, code: str = "1", status: str = "0", began: str = NOW
) -> str:
    """What `show` says of a gate that let a machine start."""
    return (
        f"LoadState=loaded\nActiveState={state}\nResult={result}\nExecMainStartTimestampMonotonic={began}\n"
        f"ExecMainExitTimestampMonotonic={began}\nExecMainCode={code}\nExecMainStatus={status}"
    )


class TestAsk:
    """What the start of a machine asks of systemd."""

    def test_granted(self, place: Place) -> None:
        """When the unit's start succeeds, the machine starts, and systemd is asked nothing else."""
        done, calls, naps = ask(place, Answers((0,)))
        assert (done.returncode, done.stderr, calls, naps) == (0, "", [START], [])

    # The others may be ignored where this test was started, such as by nohup; bash cannot trap such a signal.
    @pytest.mark.parametrize("name", ["TERM", "PIPE", "ALRM", "USR1", "USR2"])
    def test_a_signal(self, place: Place, name: str) -> None:
        """A signal ends the wait with 1, as a refusal does: the unit may count death by a signal as a success."""
        done, calls, _ = ask(place, Answers((0,), also=f"kill -{name} $PPID"))
        assert (done.returncode, calls) == (1, [START])

    @pytest.mark.parametrize("result", ["exit-code", "timeout", "core-dump", "resources"])
    def test_refused(self, place: Place, result: str) -> None:
        """If the unit has failed by itself since, the start is refused at once, and the error names the journal."""
        done, calls, naps = ask(place, Answers((1,), failed(result)))
        assert (done.returncode, calls.count(START), naps) == (1, 1, [])
        assert f"<3>host-routing-gate: kubelet.service must not start: see journalctl -u {UNIT}" in done.stderr

    def test_refused_on_a_host_that_was_suspended(self, place: Place) -> None:
        """If systemd's clock is behind, every end seems to be an old one; the second that is new is a refusal."""
        done, calls, naps = ask(place, Answers((1,), failed(ended=f"$(grep -c start {place.folder}/calls)")))
        assert (done.returncode, calls.count(START), naps) == (1, 2, ["0.3"])
        assert f"<3>host-routing-gate: kubelet.service must not start: see journalctl -u {UNIT}" in done.stderr

    @pytest.mark.parametrize("load", ["masked", "not-found", "bad-setting", "error"])
    def test_a_unit_that_cannot_be_started(self, place: Place, load: str) -> None:
        """A unit that is masked or missing refuses at once."""
        done, calls, _ = ask(place, Answers((5,), f"LoadState={load}\nActiveState=inactive\nResult=success"))
        assert (done.returncode, calls.count(START)) == (1, 1)

    @pytest.mark.parametrize(
        "show",
        [
            failed("signal"),
            failed("exit-code", "17"),
            "LoadState=loaded\nActiveState=inactive\nResult=success\nExecMainExitTimestampMonotonic=0",
            "LoadState=loaded\nActiveState=activating\nResult=success\nExecMainExitTimestampMonotonic=0",
            "",
            passed(began="17"),
            passed(state="activating"),
            passed(code="2", status="15"),
            passed(status="1"),
            passed(result="signal"),
        ],
        ids=[
            *("stopped", "failed before", "stopped early", "going on", "no answer"),
            *("passed before", "runs again", "killed", "an exit that counts as success", "a signal"),
        ],
    )
    def test_asked_again(self, place: Place, show: str) -> None:
        """If the run was stopped, or its result is not known, systemd is asked again, and the second answer counts."""
        done, calls, naps = ask(place, Answers((1, 1, 0), show))
        assert (done.returncode, calls.count(START), naps) == (0, 3, ["0.3", "0.3"])

    def test_passed_unheard(self, place: Place) -> None:
        """When the run has passed since, but `start` did not hear of it, the machine starts."""
        done, calls, naps = ask(place, Answers((1,), passed()))
        assert (done.returncode, calls.count(START), naps) == (0, 1, [])

    def test_not_forever(self, place: Place) -> None:
        """Systemd is asked again for about 20 s at most."""
        done, calls, naps = ask(place, Answers((1,), failed("signal")))
        assert (done.returncode, calls.count(START)) == (1, 60)
        assert 15 < sum(map(float, naps)) < 20
        assert f"{UNIT} does not finish; see journalctl -u {UNIT}" in done.stderr

    @pytest.mark.parametrize(
        ("is_script_there", "show", "status"),
        [(False, failed(), 0), (True, "LoadState=not-found", 0), (True, failed(), 1)],
        ids=["no script", "no unit", "only the drop-in"],
    )
    def test_removed_meanwhile(self, place: Place, is_script_there: bool, show: str, status: int) -> None:  # noqa: FBT001  a parameter of the test
        """The machine starts if hostrouting was removed before the start failed: the drop-in is gone, and the script or the unit.

        A setting of the machine's unit can hide the drop-in alone. Kills: the second half of is_removed left out.
        """
        if is_script_there:
            (place.folder / "host-routing-gate.sh").touch()
        done, calls, _ = ask(place, Answers((5,), show, also=f"rm -f {place.drop_in}"))
        assert (done.returncode, calls.count(START)) == (status, 1)

    def test_without_systemctl(self, place: Place) -> None:
        """If systemctl cannot be run, no machine starts."""
        text = re.sub(r"PATH=\S+", f"PATH={place.folder}", place.text)
        (place.folder / "sleep").symlink_to("/bin/true")
        assert place.run("ask", text=text).returncode == 1

    def test_the_result_is_that_of_the_unit(self, place: Place) -> None:
        """The result is that of the unit: `ask` itself runs no step."""
        place.put([step("50 requires a")], {"a": BAD})
        done, _, _ = ask(place, Answers((0,)))
        assert (done.returncode, place.log) == (0, [])


LATER, UNIT_OF = 99_999_999_999, "kubelet.service"
# The text of the file, its mode, how old it is, and whether kubelet.service starts unchecked.
OPENINGS: list[tuple[str, int, int, bool]] = [
    (f"{LATER} {UNIT_OF} root ticket 4711\n", 0o600, 0, True),
    (f"{LATER} all root why", 0o644, 3600, True),
    (f"1 all root ended\n{LATER} k3s.service root another\n{LATER} {UNIT_OF} admin why", 0o600, 0, True),
    (f"{LATER} {UNIT_OF} root why\n1 all root ended\n", 0o600, 0, True),
    (f"{LATER} k3s.service root why\n", 0o600, 0, False),
    (f"{LATER} kubelet root why\n", 0o600, 0, False),
    ("1 all root ended\n", 0o600, 0, False),
    ("", 0o600, 0, False),
    ("\n", 0o600, 0, False),
    (f"{LATER} all root why\n\n", 0o600, 0, False),
    (f"{LATER} all root\n", 0o600, 0, False),
    (f"{LATER}  all root why\n", 0o600, 0, False),
    (f"-{LATER} all root why\n", 0o600, 0, False),
    (f"{LATER}0 all root why\n", 0o600, 0, False),
    (f"{LATER} all root why\nnonsense\n", 0o600, 0, False),
    ("08 all root octal\n", 0o600, 0, False),
    (f"{LATER} * root why\n", 0o600, 0, False),
    (f"{LATER} all root $(touch marker)\n", 0o600, 0, True),
    (f"{LATER} all root why\n", 0o622, 0, False),
    (f"{LATER} all root why\n", 0o666, 0, False),
    (f"{LATER} all root why\n", 0o600, -3600, False),
]


@pytest.fixture
def open_place(tmp_path: Path) -> Place:
    """A place in which the gate refuses, at the path that the opening has below a root."""
    folder = tmp_path / "etc/hostrouting"
    folder.mkdir(parents=True)
    return Place.below(folder)


class TestOpened:
    """An administrator can let a unit start unchecked for a time."""

    @pytest.mark.parametrize(("text", "mode", "age", "opened"), OPENINGS)
    def test_as_python_reads_it(self, open_place: Place, text: str, mode: int, age: int, opened: bool) -> None:  # noqa: FBT001  a parameter of the test
        """The script and `status` agree on what a file opens; what is broken, ended or from the future does not open the gate.

        Kills: each condition left out, of the script or of openings_in_force.
        """
        path = open_place.folder / "gate.open"
        path.write_text(text)
        path.chmod(mode)
        then = time.time() - age
        os.utime(path, (then, then))
        done, calls, _ = ask(open_place, Answers((1,), failed()))
        assert (done.returncode == 0) == opened, done.stderr
        host = attrs.evolve(Host.local(), layout=HostLayout(root=str(open_place.folder.parents[1])))
        findings = opening_findings(host, datetime.now(timezone.utc))
        assert bool({finding.target for finding in findings} & {"all", UNIT_OF}) == opened
        faults = [f"<4>host-routing-gate: {it.sentence}" for it in findings if it.name == "edited-file"]
        assert [line for line in done.stderr.splitlines() if "does not open the gate" in line] == faults
        if opened:
            assert re.search(r"<4>host-routing-gate: kubelet.service starts unchecked until \d{4}-", done.stderr)
            assert calls == [f"--no-ask-password --no-block start {UNIT}"], "the steps still run, beside the start"
        assert not Path("marker").exists()

    def test_something_else_in_its_place(self, open_place: Place) -> None:
        """A link, even to a right file, and a folder open nothing, and the journal says so."""
        path = open_place.folder / "gate.open"
        other = open_place.folder / "other"
        other.write_text(f"{LATER} all root why\n")
        path.symlink_to(other)
        assert ask(open_place, Answers((1,), failed()))[0].returncode == 1
        path.unlink()
        path.mkdir()
        done, *_ = ask(open_place, Answers((1,), failed()))
        assert done.returncode == 1
        assert f"{path} does not open the gate: it has to be a file that only root can write" in done.stderr

    @pytest.mark.parametrize("shell", ["bash", "sh"])
    def test_the_line_in_the_refusal(self, open_place: Place, shell: str) -> None:
        """The refusal has a line to type: after it the unit starts, for two hours, and its name is that of the unit.

        Kills: a line that a shell does not take, and one whose file the script does not take.
        """
        done, *_ = ask(open_place, Answers((1,), failed()))
        [line] = re.findall(r"to start it unchecked for 2 hours, type as root: (.*)", done.stderr)
        assert len(line) < 100 + len(str(open_place.folder))
        subprocess.run([shell, "-c", line], check=True, umask=0o022, env={**os.environ, "SUDO_USER": "ada"})
        done, *_ = ask(open_place, Answers((1,), failed()))
        assert done.returncode == 0
        assert "; ada opened the gate: WHY" in done.stderr
        until = int((open_place.folder / "gate.open").read_text().split()[0])
        assert 7100 < until - time.time() <= 7200
