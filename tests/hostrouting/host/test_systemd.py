"""The edge of the service manager: reading systemctl's answers."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hostrouting.errors import HostError
from hostrouting.host.systemd import SystemdManager
from tests.support.waiting import wait_for

STUB = """#!{python}
import os, sys, time
open({log!r}, "a").write(" ".join(sys.argv[1:]) + "\\n")
answers = {answers!r}
for words, (code, text) in answers.items():
    if words in " ".join(sys.argv[1:]):
        if code == "hang":
            time.sleep(60)
        if code != "hang" and code < 0:
            os.kill(os.getpid(), -code)
        (sys.stderr if code else sys.stdout).write(text)
        sys.exit(code)
"""


@pytest.mark.linux
class TestSystemdManager:
    """How systemctl's answers are read; a script with given answers takes its place."""

    @pytest.fixture
    def stub(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple[object, str]]:
        """Answers by words of the command; they are put in place when the first command runs."""
        answers: dict[str, tuple[object, str]] = {}
        monkeypatch.setenv("PATH", str(tmp_path))
        return answers

    def ready(self, tmp_path: Path, answers: dict[str, tuple[object, str]]) -> Path:
        """Write the stand-ins; the file has the commands that were given."""
        log = tmp_path / "log"
        for name in ("systemctl", "journalctl"):
            program = tmp_path / name
            program.write_text(STUB.format(python=sys.executable, log=str(log), answers=answers), encoding="utf-8")
            program.chmod(0o755)
        return log

    def test_start(self, tmp_path: Path, stub: dict[str, tuple[object, str]]) -> None:
        """A unit is started with an argument list; no password is asked for, and nothing that is tied to it touched.

        A run that goes on is not joined, and a oneshot that another installer had remain active is run as well.
        """
        log = self.ready(tmp_path, stub)
        SystemdManager().start("x.service", timeout=60)
        assert (
            log.read_text(encoding="utf-8").splitlines()[-1]
            == "--no-ask-password --no-pager --job-mode=ignore-dependencies restart x.service"
        )

    def test_failed_start(self, tmp_path: Path, stub: dict[str, tuple[object, str]]) -> None:
        """A unit that fails is reported with systemd's reason and the unit's own words from that very run."""
        stub |= {
            "start x.service": (1, "Job for x.service failed"),
            "show": (0, "LoadState=loaded\nActiveState=failed\nResult=exit-code\nExecMainStatus=3\nInvocationID=abc\n"),
            "_SYSTEMD_INVOCATION_ID=abc": (0, "eth0 is not there\ngiving up\n"),
        }
        self.ready(tmp_path, stub)
        with pytest.raises(HostError) as caught:
            SystemdManager().start("x.service", timeout=60)
        assert str(caught.value) == (
            "x.service failed (exit-code, exit status 3): eth0 is not there | giving up; see `journalctl -u x.service`"
        )

    def test_hanging_start(self, tmp_path: Path, stub: dict[str, tuple[object, str]]) -> None:
        """A start that hangs is given up in time, and its job is cancelled by a stop."""
        stub |= {"start x.service": ("hang", "")}
        log = self.ready(tmp_path, stub)
        with pytest.raises(HostError, match=r"systemctl .* restart x.service did not answer within 0\.5 s"):
            SystemdManager().start("x.service", timeout=0.5)
        assert (
            log.read_text(encoding="utf-8").splitlines()[-1].endswith("--job-mode=ignore-dependencies stop x.service")
        )

    @pytest.mark.parametrize("ended_by", [signal.SIGTERM, signal.SIGKILL])
    def test_start_that_is_ended(
        self, tmp_path: Path, stub: dict[str, tuple[object, str]], ended_by: signal.Signals
    ) -> None:
        """Of a systemctl that was ended by a signal to all of us the unit is not said to have failed; it is stopped."""
        stub |= {"start x.service": (-ended_by, "")}
        log = self.ready(tmp_path, stub)
        with pytest.raises(HostError, match=rf"systemctl .* restart x.service was killed by {ended_by.name}"):
            SystemdManager().start("x.service", timeout=60)
        assert log.read_text(encoding="utf-8").splitlines()[-1].endswith("stop x.service")

    def test_ctrl_c_while_it_starts(self, tmp_path: Path, stub: dict[str, tuple[object, str]]) -> None:
        """Ctrl-C at the terminal is for us alone, and has the unit stopped; systemctl did not die of it before."""
        stub |= {"start x.service": ("hang", "")}
        log = self.ready(tmp_path, stub)
        code = "from hostrouting.host.systemd import SystemdManager; SystemdManager().start('x.service', timeout=50)"
        child = subprocess.Popen([sys.executable, "-c", code], start_new_session=True, stderr=subprocess.PIPE)
        wait_for("it to start systemctl", log.exists)
        os.killpg(child.pid, signal.SIGINT)
        assert b"KeyboardInterrupt" in child.communicate(timeout=20)[1]
        assert log.read_text(encoding="utf-8").splitlines()[-1].endswith("stop x.service")

    def test_last_words_on_their_way(self, tmp_path: Path, stub: dict[str, tuple[object, str]]) -> None:
        """The journal is synced before it is read, and is read even if that fails."""
        stub |= {"start x.service": (1, ""), "show": (0, "Result=exit-code\nInvocationID=abc\n"), "--sync": (1, "no")}
        stub |= {"_SYSTEMD_INVOCATION_ID=abc": (0, "the reason\n")}
        log = self.ready(tmp_path, stub)
        with pytest.raises(HostError, match="the reason"):
            SystemdManager().start("x.service", timeout=60)
        assert "--sync" in log.read_text(encoding="utf-8").splitlines()[-2]

    def test_state(self, tmp_path: Path, stub: dict[str, tuple[object, str]]) -> None:
        """A unit that systemd does not know is not found, and one that ended well is ok."""
        stub |= {
            "known.service": (0, "LoadState=loaded\nActiveState=inactive\nResult=success\nExecMainStatus=0\n"),
            "strange.service": (0, "LoadState=not-found\nActiveState=inactive\nResult=success\n"),
        }
        self.ready(tmp_path, stub)
        assert SystemdManager().state("known.service").active == "inactive"
        assert SystemdManager().state("strange.service").load == "not-found"

    def test_reload_that_fails(self, tmp_path: Path, stub: dict[str, tuple[object, str]]) -> None:
        """An error of systemctl is quoted."""
        stub |= {"daemon-reload": (1, "Failed to connect to bus")}
        self.ready(tmp_path, stub)
        with pytest.raises(HostError, match="systemctl daemon-reload: Failed to connect to bus"):
            SystemdManager().reload()

    def test_stop(self, tmp_path: Path, stub: dict[str, tuple[object, str]]) -> None:
        """Stopping a missing unit succeeds; any other failure is an error."""
        stub |= {"stop gone.service": (5, "not loaded"), "stop x.service": (1, "Access denied")}
        self.ready(tmp_path, stub)
        SystemdManager().stop("gone.service")
        with pytest.raises(HostError, match="Access denied"):
            SystemdManager().stop("x.service")

    def test_a_stop_that_is_cancelled(self, tmp_path: Path, stub: dict[str, tuple[object, str]]) -> None:
        """A stop that is cancelled by another start is tried again, ten times at most."""
        log = self.ready(tmp_path, stub)
        count = tmp_path / "count"
        program = tmp_path / "systemctl"
        canceled = "Job for x.service canceled."
        program.write_text(
            f'#!/bin/sh\necho "$*" >>{log}\necho >>{count}\n'
            f'n=0; while read -r _; do n=$((n + 1)); done <{count}\n[ $n -ge 3 ] || {{ echo "{canceled}" >&2; exit 1; }}\n'
        )
        SystemdManager().stop("x.service")
        assert len(log.read_text(encoding="utf-8").splitlines()) == 3
        program.write_text(f'#!/bin/sh\necho "$*" >>{log}\necho "{canceled}" >&2\nexit 1\n')
        with pytest.raises(HostError, match=canceled):
            SystemdManager().stop("x.service")
        assert len(log.read_text(encoding="utf-8").splitlines()) == 13

    def test_show(self, tmp_path: Path, stub: dict[str, tuple[object, str]]) -> None:
        """Each unit is a mapping of the requested properties; a pattern that matches nothing gives no unit."""
        stub |= {
            "machine@*.service": (0, "Id=machine@a.service\nSubState=start-pre\n\nId=machine@b.service\nSubState=\n"),
            "none@*.service": (0, ""),
        }
        log = self.ready(tmp_path, stub)
        assert SystemdManager().show(("Id", "SubState"), "machine@*.service") == (
            {"Id": "machine@a.service", "SubState": "start-pre"},
            {"Id": "machine@b.service", "SubState": ""},
        )
        asked = "--no-ask-password --no-pager show --all --property Id,SubState -- machine@*.service"
        assert log.read_text(encoding="utf-8").splitlines() == [asked]
        assert SystemdManager().show(("Id",), "none@*.service") == ()

    @pytest.mark.usefixtures("stub")
    def test_its_environment(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Variables that make systemctl succeed without acting do not reach it; all others do."""
        for name in ("SYSTEMD_OFFLINE", "SYSTEMD_IN_CHROOT", "OTHER"):
            monkeypatch.setenv(name, "1")
        program = tmp_path / "systemctl"
        program.write_text(f"#!/bin/sh\nexport -p >{tmp_path}/environment\n", encoding="utf-8")
        program.chmod(0o755)
        SystemdManager().reload()
        names = {
            line.split()[-1].split("=")[0]: line.split("=")[-1].strip("'")
            for line in (tmp_path / "environment").read_text(encoding="utf-8").splitlines()
        }
        assert not {"SYSTEMD_OFFLINE", "SYSTEMD_IN_CHROOT"} & names.keys()
        assert names["SYSTEMD_IGNORE_CHROOT"] == "1"
        assert names["OTHER"] == "1"

    @pytest.mark.usefixtures("stub")
    def test_without_systemctl(self) -> None:
        """If there is no systemctl the error says what to do."""
        with pytest.raises(
            HostError, match=r"the program systemctl was not found; install systemd, or write into an image"
        ):
            SystemdManager().reload()
