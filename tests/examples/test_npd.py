"""examples/fleet/npd: the configuration and the manifests, tried with a model of node-problem-detector."""

import json
import re
import subprocess
import time
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from hostrouting.check.report import npd_line
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.host.layout import HostLayout
from tests.support.machine import H200, Machine, private_machine
from tests.support.manifests import faults_of, manifests_in
from tests.support.npd import FOLDER, PLUGIN, Condition, Event, Fatal, Npd, Result, seconds_of
from tests.support.posix_shells import each_shell
from tests.support.waiting import wait_for

CONDITION = (FOLDER / "hostrouting.json").read_text(encoding="utf-8")
STATE = HostLayout().state_directory
LINE = HostLayout().npd_path
OLD = "the guard has not looked for three minutes, or nothing was checked for a day"
BACK = "the clock was set back, so nobody knows how old the last answer is"
CAPTURED: dict[str, Any] = {"capture_output": True, "text": True, "timeout": 60}
RIGHT = "every expected CIDR leaves by an expected device"
DIGITS = "0123456789" * 9


def config(*rules: dict[str, Any], **settings: object) -> str:
    """A configuration with these rules; of the conditions, Odd has a default."""
    default = {"type": "Odd", "reason": "NotOdd", "message": "it is even"}
    return json.dumps({"plugin": "custom", "pluginConfig": settings, "conditions": [default], "rules": list(rules)})


def plugin(directory: Path, body: str, *, mode: int = 0o755) -> str:
    """A plugin with this body; its path."""
    path = directory / f"plugin-{len(list(directory.iterdir()))}.sh"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(mode)
    return str(path)


class TestTheModel:
    """What the tests and the source of node-problem-detector say of it, so that the model can be believed."""

    # The cases of TestNewPluginRun in pkg/custompluginmonitor/plugin/plugin_test.go, and more that its source shows.
    @pytest.mark.linux
    @pytest.mark.parametrize(
        ("body", "result"),
        [
            ("echo OK; exit 0", Result(0, "OK")),
            ("echo NonOK; exit 1", Result(1, "NonOK")),
            ("echo UNKNOWN; exit 2", Result(2, "UNKNOWN")),
            ("echo NON-DEFINED-EXIT-STATUS; exit 100", Result(2, "NON-DEFINED-EXIT-STATUS")),
            (f"echo {DIGITS}", Result(0, DIGITS[:80])),
            ("echo; echo '  two  words  '; echo", Result(0, "two  words")),
            (f"printf %s {DIGITS[:78]}; printf '\\342\\200\\223'", Result(0, DIGITS[:78] + "\udce2\udc80")),
            ("head -c 100000 /dev/zero | tr '\\0' ' '; echo late", Result(0, "")),
            ("head -c 1000000 /dev/zero >&2; echo OK", Result(0, "OK")),
            ("kill -9 $$", Result(2, "")),
            ("echo said; kill -15 $$", Result(2, "said")),
        ],
    )
    def test_run(self, body: str, result: Result, tmp_path: Path) -> None:
        """An exit code, and of the output 4 KiB, trimmed and cut to 80 bytes."""
        npd = Npd(config({"type": "temporary", "reason": "x", "path": plugin(tmp_path, body)}))
        assert npd.tick() == [result]

    @pytest.mark.linux
    def test_not_executable(self, tmp_path: Path) -> None:
        """A plugin that cannot be started is unknown."""
        npd = Npd(config({"type": "temporary", "reason": "x", "path": plugin(tmp_path, "", mode=0o644)}))
        assert npd.tick() == [Result(2, "Error in starting plugin. Please check the error log")]

    @pytest.mark.linux
    def test_timeout(self, tmp_path: Path) -> None:
        """At its time-out, a plugin and what it has started are killed, and the result is unknown."""
        path = plugin(tmp_path, f"sleep 500 & echo $! >{tmp_path}/child; echo early; wait")
        npd = Npd(config({"type": "temporary", "reason": "x", "path": path, "timeout": "500ms"}, max_output_length=500))
        child = tmp_path / "child"

        def has_a_child() -> bool:
            told = f'Timeout when running plugin "{path}": state - signal: killed. output - ""'
            assert npd.tick() == [Result(2, told)]
            return child.exists() and child.read_text().endswith("\n")

        wait_for("the plugin to start its child before its time-out", has_a_child)
        wait_for("the child to end", lambda: not is_running(int(child.read_text())))

    @pytest.mark.linux
    def test_what_is_left_behind(self, tmp_path: Path) -> None:
        """A program that keeps the output open is waited for, although the plugin itself has ended."""
        path = plugin(tmp_path, "sleep 500 & echo done; exit 0")
        npd = Npd(config({"type": "temporary", "reason": "x", "path": path}, timeout="500ms"))

        def has_ended_itself() -> bool:
            [result] = npd.tick()
            assert result.message.startswith("Timeout when running plugin ")
            return result.status == 0

        wait_for("the plugin to end before the time-out", has_ended_itself)

    @pytest.mark.parametrize(
        ("text", "why"),
        [
            ("{", "unmarshal"),
            (config().replace("custom", "journald"), "only the plugin custom"),
            (config({"type": "temporary", "path": "/bin/sh", "timeout": "6s"}), "greater than global timeout"),
            (config({"type": "temporary", "path": "/absent"}), "rule path /absent does not exist"),
            (config({"type": "permanent", "condition": "Even", "path": "/bin/sh"}), "Even does not have a default"),
            (config(timeout="5"), "error in parsing"),
        ],
    )
    def test_refused(self, text: str, why: str) -> None:
        """With such a configuration NPD ends at its start."""
        with pytest.raises(Fatal, match=why):
            Npd(text)

    @pytest.mark.parametrize(("text", "seconds"), [("30s", 30), ("1m30s", 90), ("500ms", 0.5), ("1.5h", 5400)])
    def test_durations(self, text: str, seconds: float) -> None:
        """Durations are in Go's notation."""
        assert seconds_of(text) == pytest.approx(seconds)

    @pytest.mark.linux
    def test_conditions(self, tmp_path: Path) -> None:
        """A condition begins as False with its default; it changes with the result, and each change is an event.

        With `skip_initial_status`, a node has none before the first result.
        """
        path = plugin(tmp_path, f'cat {tmp_path}/says; exit "$(cat {tmp_path}/code)"')
        npd = Npd(config({"type": "permanent", "condition": "Odd", "reason": "IsOdd", "path": path}))

        def then(code: int, says: str) -> Condition:
            (tmp_path / "says").write_text(says)
            (tmp_path / "code").write_text(f"{code}\n")
            npd.tick()
            return npd.condition("Odd")

        assert npd.condition("Odd") == Condition("Odd", "False", "NotOdd", "it is even")
        assert then(0, "fine") == Condition("Odd", "False", "NotOdd", "it is even")
        assert npd.events == []
        assert then(1, "one") == Condition("Odd", "True", "IsOdd", "one")
        assert then(1, "three") == Condition("Odd", "True", "IsOdd", "one")
        npd.tells_changes = True
        assert then(1, "three") == Condition("Odd", "True", "IsOdd", "three")
        assert then(3, "who knows") == Condition("Odd", "Unknown", "NotOdd", "who knows")
        assert then(3, "nobody") == Condition("Odd", "Unknown", "NotOdd", "who knows")
        assert then(0, "fine") == Condition("Odd", "False", "NotOdd", "it is even")
        assert [event.severity for event in npd.events] == ["Warning", "Warning", "Normal", "Normal"]
        rule = {"type": "permanent", "condition": "Odd", "reason": "IsOdd", "path": path}
        skipping = Npd(config(rule, skip_initial_status=True))
        assert skipping.told == ()
        skipping.tick()
        assert skipping.condition("Odd") == Condition("Odd", "False", "NotOdd", "it is even")
        assert npd.events[0].message == 'Node condition Odd is now: True, reason: IsOdd, message: "one"'

    @pytest.mark.linux
    def test_events(self, tmp_path: Path) -> None:
        """A temporary rule has an event each time that its result is not 0, also if it is unknown."""
        for code, expected in ((0, []), (1, [Event("Warning", "x", "told")]), (7, [Event("Warning", "x", "told")])):
            npd = Npd(config({"type": "temporary", "reason": "x", "path": plugin(tmp_path, f"echo told; exit {code}")}))
            npd.tick()
            assert npd.events == expected


def is_running(pid: int) -> bool:
    """Whether the process runs, and is not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def manifest(name: str, kind: str) -> dict[str, Any]:
    """The manifest of this kind in this file."""
    [found] = [it for it in manifests_in(FOLDER / name) if it["kind"] == kind]
    return found


class TestTheManifests:
    """That they fit together, and only have fields that exist."""

    @pytest.mark.parametrize("path", sorted(FOLDER.glob("*.yaml")), ids=lambda path: path.name)
    def test_fields(self, path: Path) -> None:
        """Each field exists in its kind, with this type."""
        assert manifests_in(path)
        assert {it["kind"]: faults_of(it) for it in manifests_in(path) if faults_of(it)} == {}

    def test_an_unknown_field_is_found(self) -> None:
        """A misspelt field, a field in the wrong place and another type are found."""
        broken = manifest("daemonset.yaml", "DaemonSet")
        pod = broken["spec"]["template"]["spec"]
        pod["volumes"][0]["configmap"] = {}
        pod["containers"][0]["hostPath"] = {}
        pod["volumes"][1]["hostPath"]["path"] = 1
        assert faults_of(broken) == [
            ".spec.template.spec.containers[0].hostPath",
            ".spec.template.spec.volumes[0].configmap",
            ".spec.template.spec.volumes[1].hostPath.path",
        ]

    def test_the_pod_has_what_the_rules_name(self) -> None:
        """Each configuration that NPD is given, and each plugin in them, is a file of the volume at its path."""
        pod = manifest("daemonset.yaml", "DaemonSet")["spec"]["template"]["spec"]
        [container] = pod["containers"]
        volumes = {volume["name"]: volume for volume in pod["volumes"]}
        mounts = {mount["mountPath"]: volumes[mount["name"]] for mount in container["volumeMounts"]}
        assert all(mount["readOnly"] for mount in container["volumeMounts"])
        [option] = [it for it in container["command"] if it.startswith("--config.custom-plugin-monitor=")]
        [generated] = manifest("kustomization.yaml", "Kustomization")["configMapGenerator"]
        assert mounts["/etc/hostrouting-npd"]["configMap"] == {"name": generated["name"], "defaultMode": 0o555}
        paths = option.partition("=")[2].split(",")
        paths += [rule["path"] for rule in json.loads(CONDITION)["rules"]]
        assert {path.rpartition("/")[0] for path in paths} == {"/etc/hostrouting-npd"}
        assert {path.rpartition("/")[2] for path in paths} == set(generated["files"])
        there = {it.name for it in FOLDER.iterdir()}
        assert set(generated["files"]) <= there
        assert set(manifest("kustomization.yaml", "Kustomization")["resources"]) <= there

    def test_the_pod_sees_the_state_directory(self) -> None:
        """The directory of the host is mounted at the path where the plugin looks."""
        pod = manifest("daemonset.yaml", "DaemonSet")["spec"]["template"]["spec"]
        [volume] = [it for it in pod["volumes"] if "hostPath" in it]
        [mount] = [it for it in pod["containers"][0]["volumeMounts"] if it["name"] == volume["name"]]
        assert volume["hostPath"]["path"] == mount["mountPath"] == STATE
        assert f"directory=${{1:-{STATE}}}\n" in PLUGIN

    def test_the_rule_for_the_taint(self) -> None:
        """The rule requires the plugin's condition, on the nodes where the plugin runs, within the CRD's limits."""
        spec = manifest("taint.yaml", "NodeReadinessRule")["spec"]
        [condition] = json.loads(CONDITION)["conditions"]
        assert spec["conditions"] == [{"type": condition["type"], "requiredStatus": "False"}]
        pod = manifest("daemonset.yaml", "DaemonSet")["spec"]["template"]["spec"]
        assert spec["nodeSelector"]["matchLabels"] == pod["nodeSelector"]
        assert {"conditions", "enforcementMode", "nodeSelector", "taint"} <= set(spec)
        assert spec["enforcementMode"] == "continuous"
        assert spec["taint"]["key"].startswith("readiness.k8s.io/")
        assert spec["taint"]["effect"] in {"NoSchedule", "PreferNoSchedule", "NoExecute"}
        assert pod["tolerations"] == [{"operator": "Exists"}]

    def test_the_account(self) -> None:
        """The pod's account is the one that has NPD's role."""
        binding = manifest("rbac.yaml", "ClusterRoleBinding")
        account = manifest("rbac.yaml", "ServiceAccount")["metadata"]
        pod = manifest("daemonset.yaml", "DaemonSet")
        assert pod["spec"]["template"]["spec"]["serviceAccountName"] == account["name"]
        [subject] = binding["subjects"]
        assert (subject["name"], subject["namespace"]) == (account["name"], account["namespace"])
        assert pod["metadata"]["namespace"] == account["namespace"]
        assert binding["roleRef"]["name"] == "system:node-problem-detector"


def test_one_rule_for_each_condition() -> None:
    """Two rules for one condition would overwrite each other's result."""
    kinds = [rule["condition"] for rule in json.loads(CONDITION)["rules"]]
    assert len(set(kinds)) == len(kinds)


def npd_in(machine: Machine, text: str) -> Npd:
    """NPD with this configuration, in the machine."""
    return Npd(text, root=f"/proc/{machine.pid}/root", enter=(*machine.enter, "--"))


@pytest.fixture
def machine() -> Iterator[Machine]:
    """An H200 node with the files of the ConfigMap."""
    with private_machine() as machine:
        machine.batch(H200)
        folder = "/etc/hostrouting-npd"
        path = f"{folder}/hostrouting-npd.sh"
        subprocess.run(
            [*machine.enter, "sh", "-c", f"mkdir {folder} && cat >{path} && chmod 555 {path}"],
            input=PLUGIN,
            text=True,
            check=True,
            timeout=60,
        )
        yield machine


def apply(machine: Machine, *routes: str) -> None:
    """Install these routes and the check of 172.16.0.0/16."""
    settings = HostRoutingConfig(
        {"enabled": bool(routes), "routes": [{"destination": route} for route in routes]},
        {"expectedCidrs": ["172.16.0.0/16"], "mode": "WARN"},
    )
    machine.shell(f"cat >/etc/agent.json <<'END'\n{settings.to_json()}\nEND")
    done = machine.hostrouting("apply", "--config", "/etc/agent.json", "--wait", "0")
    assert done.returncode == 0, done.stderr


OK = Condition("HostRoutingProblem", "False", "NoHostRoutingProblemKnown", RIGHT)


@pytest.mark.linux
@pytest.mark.needs("root")
def test_with_a_guard(machine: Machine) -> None:
    """A real guard writes, and the condition follows: unknown, fine, misrouted, fine again, and unknown after its end."""
    npd = npd_in(machine, CONDITION)
    assert npd.told == ()  # not False, before the plugin has run
    npd.tick()
    assert npd.condition(OK.type).status == "Unknown"
    assert npd.condition(OK.type).message.startswith(f"UNKNOWN: there is no directory {STATE}: ")
    apply(machine, "172.16.0.0/17", "172.16.128.0/17")

    def becomes(status: str) -> Condition:
        def holds() -> bool:
            npd.tick()
            return npd.condition(OK.type).status == status

        wait_for(f"the condition is {status}", holds)
        return npd.condition(OK.type)

    with machine.guarding():
        wait_for("the first look", lambda: "looks" in machine.shell(f"cat {HostLayout().guard_path} 2>/dev/null || :"))
        assert becomes("False") == OK
        assert 170 < valid_for(machine) <= 180
        machine.batch(["route add 172.16.9.0/24 dev ib3"])
        found = becomes("True")
        assert found.reason == "ExpectedCIDRMisrouted"
        start = "OVERLAP: expected CIDR 172.16.0.0/16 (172.16.9.0-172.16.9.255) routes via ib3 ["
        assert found.message.startswith(start)
        assert found.message.endswith("; for more, run on the host: hostrouting check")
        assert npd.events[-1].severity == "Warning"
        machine.batch(["route del 172.16.9.0/24 dev ib3"])
        assert becomes("False") == OK
    # The guard has ended. Its last answer becomes old; here, it is made old.
    machine.shell(f"sed -i 's/^[0-9]*/1500000000/' {LINE}")
    told = becomes("Unknown")
    assert told.message.startswith("UNKNOWN: the guard has not looked for three minutes, or ")
    assert told.reason == OK.reason


@pytest.mark.linux
@pytest.mark.needs("root")
def test_without_a_guard(machine: Machine) -> None:
    """The last check decides: that of the task, and that of the script that runs before a machine starts."""
    npd, script = npd_in(machine, CONDITION), "/etc/hostrouting/check-route-overlap.sh"
    apply(machine)
    messages = []
    for _ in range(2):
        npd.tick()
        told = npd.condition(OK.type)
        assert (told.status, told.reason) == ("True", "ExpectedCIDRMisrouted")
        assert 86_300 < valid_for(machine) <= 86_400
        assert re.search(
            r"; for more, run on the host: hostrouting check; checked at 20[-0-9]{8}T[:0-9]{8}Z$", told.message
        )
        messages.append(told.message.partition(", expected eth0; ")[0])
        machine.shell(script)
    assert messages[0] == messages[1]  # the task and the script say the same
    machine.batch(["route add 172.16.0.0/17 via 10.0.0.1 dev eth0", "route add 172.16.128.0/17 via 10.0.0.1 dev eth0"])
    machine.shell(script)
    npd.tick()
    assert npd.condition(OK.type) == OK
    # A check without a verdict leaves nothing: the answer of an earlier one must not stay.
    machine.shell(f"sed -i 's/^awk=.*/awk=nothing/' {script}; {script} 2>/dev/null || :")
    npd.tick()
    assert npd.condition(OK.type).message.startswith("UNKNOWN: there is no result of a check since this host booted")


def valid_for(machine: Machine) -> int:
    """For how many seconds the line on the machine is valid."""
    return int(machine.shell(f"cat {LINE}").split()[0]) - int(time.time())


class TestThePlugin:
    """The plugin prints a line while that line is valid; otherwise it says why the answer is unknown."""

    @pytest.mark.linux
    @each_shell
    @pytest.mark.parametrize(
        ("line", "code", "told"),
        [
            ((60, "0 OK: fine"), 0, "OK: fine"),
            ((86_400, "1 OVERLAP:  a * \\n `b`"), 1, "OVERLAP:  a * \\n `b`"),
            ((60, "3 UNKNOWN: who knows"), 3, "UNKNOWN: who knows"),
            ((60, "2 OK: fine"), 3, "UNKNOWN: FILE cannot be read; ON"),
            ((60, ""), 3, "UNKNOWN: FILE cannot be read; ON"),
            ((None, '{"schema": "hostrouting/check/1"}'), 3, "UNKNOWN: FILE cannot be read; ON"),
            ((None, "1+1 0 OK: fine"), 3, "UNKNOWN: FILE cannot be read; ON"),
            ((None, "9" * 30 + " 0 OK: fine"), 3, "UNKNOWN: FILE cannot be read; ON"),
            ((0, "0 OK: fine"), 3, f"UNKNOWN: {OLD}; ON"),
            ((-9_999, "1 OVERLAP: x"), 3, f"UNKNOWN: {OLD}; ON"),
            ((99_999, "0 OK: fine"), 3, f"UNKNOWN: {BACK}; ON"),
        ],
    )
    def test_lines(self, shell: list[str], line: tuple[int | None, str], code: int, told: str, tmp_path: Path) -> None:
        """The plugin's answer to each line."""
        left, rest = line
        file = tmp_path / "route-overlap.npd"
        file.write_text(f"{rest}\n" if left is None else f"{int(time.time()) + left} {rest}\n")
        done = subprocess.run([*shell, "-s", "--", str(tmp_path)], input=PLUGIN, check=False, **CAPTURED)
        told = told.replace("FILE", str(file)).replace("ON", "on the host, run: hostrouting status", told.count("; ON"))
        assert (done.returncode, done.stdout, done.stderr) == (code, f"{told}\n", "")

    @pytest.mark.linux
    @each_shell
    def test_cut_short(self, shell: list[str], tmp_path: Path) -> None:
        """A plugin that ends early never says that the node is fine, or that it has a problem."""
        (tmp_path / "route-overlap.npd").write_text(f"{int(time.time()) + 60} 0 OK: fine\n")
        complete = PLUGIN.rindex('"$sentence"')
        lengths = range(len(PLUGIN.partition("\n")[0]) + 80, complete, 97)
        codes = {
            subprocess.run(
                [*shell, "-s", "--", str(tmp_path)], input=PLUGIN[:length], check=False, **CAPTURED
            ).returncode
            for length in lengths
        }
        assert codes <= {2, 3}

    @pytest.mark.linux
    def test_without_date(self, tmp_path: Path) -> None:
        """Without the time, it is not known whether the line is valid."""
        (tmp_path / "route-overlap.npd").write_text("1500000000 0 OK: fine\n")
        text = PLUGIN.replace("$PATH:/usr/bin:/bin", "/nowhere")
        done = subprocess.run(["/bin/sh", "-s", "--", str(tmp_path)], input=text, check=False, **CAPTURED)
        assert (done.returncode, done.stdout.partition(";")[0]) == (3, "UNKNOWN: the program date does not work here")


@pytest.mark.parametrize(
    ("sentence", "plain"),
    [("1.0.0.0–1.0.0.9", "1.0.0.0-1.0.0.9"), ("dev é\n0 OK: x\r\x00", "dev ??0 OK: x??")],  # noqa: RUF001
)
def test_the_line_is_one_line(sentence: str, plain: str) -> None:
    """A sentence stays one line of ASCII, whatever it contains."""
    assert npd_line(f"1 {sentence}", datetime.fromtimestamp(1.5e9, timezone.utc)) == f"1500000000 1 {plain}\n"
