"""examples/fleet/npd: the plugin as node-problem-detector runs it, its configuration, and the manifests."""

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
from tests.support.posix_shells import each_shell
from tests.support.programs import EXAMPLES
from tests.support.waiting import wait_for

FOLDER = EXAMPLES / "fleet/npd"
PLUGIN = (FOLDER / "hostrouting-npd.sh").read_text(encoding="utf-8")
CONFIG = json.loads((FOLDER / "hostrouting.json").read_text(encoding="utf-8"))
STATE = HostLayout().state_directory
LINE = HostLayout().npd_path
OLD = "the guard has not looked for three minutes, or nothing was checked for a day"
BACK = "the clock was set back, so nobody knows how old the last answer is"
CAPTURED: dict[str, Any] = {"capture_output": True, "text": True, "timeout": 60}


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
        paths += [rule["path"] for rule in CONFIG["rules"]]
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
        [condition] = CONFIG["conditions"]
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


def test_the_configuration() -> None:
    """It is one that NPD accepts. Two rules for one condition would overwrite each other's result."""
    kinds = [rule["condition"] for rule in CONFIG["rules"]]
    assert sorted(kinds) == sorted(condition["type"] for condition in CONFIG["conditions"])
    assert {rule["type"] for rule in CONFIG["rules"]} == {"permanent"}
    assert CONFIG["pluginConfig"]["skip_initial_status"], "or each node would be fine before the plugin has run"
    # In seconds. NPD ends at its start if a rule has more time than all of them may have.
    assert all(int(rule["timeout"][:-1]) <= int(CONFIG["pluginConfig"]["timeout"][:-1]) for rule in CONFIG["rules"])


def answer(machine: Machine) -> tuple[int, str]:
    """What NPD gets from the plugin: an exit code, and a line, which it does not cut."""
    done = machine.run(CONFIG["rules"][0]["path"])
    assert len(done.stdout.strip()) <= CONFIG["pluginConfig"]["max_output_length"]
    return done.returncode, done.stdout.strip()


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


@pytest.mark.linux
@pytest.mark.needs("root")
def test_with_a_guard(machine: Machine) -> None:
    """A real guard writes, and the answer follows: unknown, fine, misrouted, fine again, and unknown after its end."""
    code, line = answer(machine)
    assert (code, line.startswith(f"UNKNOWN: there is no directory {STATE}: ")) == (3, True)
    apply(machine, "172.16.0.0/17", "172.16.128.0/17")

    def becomes(code: int) -> str:
        wait_for(f"the exit code {code}", lambda: answer(machine)[0] == code)
        return answer(machine)[1]

    with machine.guarding():
        wait_for("the first look", lambda: "looks" in machine.shell(f"cat {HostLayout().guard_path} 2>/dev/null || :"))
        assert becomes(0).startswith("OK: ")
        assert 170 < valid_for(machine) <= 180
        machine.batch(["route add 172.16.9.0/24 dev ib3"])
        line = becomes(1)
        assert line.startswith("OVERLAP: expected CIDR 172.16.0.0/16 (172.16.9.0-172.16.9.255) routes via ib3 [")
        assert line.endswith("; for more, run on the host: hostrouting check")
        machine.batch(["route del 172.16.9.0/24 dev ib3"])
        becomes(0)
    # The guard has ended. Its last answer becomes old; here, it is made old.
    machine.shell(f"sed -i 's/^[0-9]*/1500000000/' {LINE}")
    assert becomes(3).startswith("UNKNOWN: the guard has not looked for three minutes, or ")


@pytest.mark.linux
@pytest.mark.needs("root")
def test_without_a_guard(machine: Machine) -> None:
    """The last check decides: that of the task, and that of the script that runs before a machine starts."""
    script = "/etc/hostrouting/check-route-overlap.sh"
    apply(machine)
    messages = []
    for _ in range(2):
        code, line = answer(machine)
        assert code == 1
        assert 86_300 < valid_for(machine) <= 86_400
        assert re.search(r"; for more, run on the host: hostrouting check; checked at 20[-0-9]{8}T[:0-9]{8}Z$", line)
        messages.append(line.partition(", expected eth0; ")[0])
        machine.shell(script)
    assert messages[0] == messages[1]  # the task and the script say the same
    machine.batch(["route add 172.16.0.0/17 via 10.0.0.1 dev eth0", "route add 172.16.128.0/17 via 10.0.0.1 dev eth0"])
    machine.shell(script)
    assert answer(machine)[0] == 0
    # A check without a verdict leaves nothing: the answer of an earlier one must not stay.
    machine.shell(f"sed -i 's/^awk=.*/awk=nothing/' {script}; {script} 2>/dev/null || :")
    assert answer(machine)[1].startswith("UNKNOWN: there is no result of a check since this host booted")


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
