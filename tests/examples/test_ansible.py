"""examples/fleet/ansible: the collection and its playbook, run by Ansible over ssh on nodes in private machines."""

import ast
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import yaml

import hostrouting
from hostrouting.fleet import Outcome, Ran, outcome_of
from hostrouting.model.snapshot import Snapshot
from tests.support.ansible_fleet import EXAMPLE, PROGRAM, Controller, Node, Played, ansible_fleet
from tests.support.pages import BLOCK, ROOT, page
from tests.support.programs import completed

pytestmark = pytest.mark.linux

COLLECTION = EXAMPLE / "ansible_collections/hostrouting/node"
MODULES = ("host_routing", "host_routing_facts")
CIDR = "172.16.0.0/16"
HALVES = [{"destination": "172.16.0.0/17"}, {"destination": "172.16.128.0/17"}]
FILES = "/etc/hostrouting"
WARN: dict[str, Any] = {
    "staticRoutes": {"enabled": True, "routes": HALVES},
    "routeOverlap": {"expectedCidrs": [CIDR], "mode": "WARN"},
}
LACKING: dict[str, Any] = {
    "staticRoutes": {"enabled": True, "routes": HALVES[:1]},
    "routeOverlap": {"expectedCidrs": [CIDR], "mode": "STRICT"},
}
WAITS: dict[str, Any] = {"staticRoutes": {"enabled": True, "routes": [{"destination": "9.0.0.0/8", "dev": "eth9"}]}}
ROUTES = ["172.16.0.0/17 via 10.0.0.1 dev eth0", "172.16.128.0/17 via 10.0.0.1 dev eth0"]
SECTION = page("fleet").split("\n## Ansible\n")[1].split("\n## ")[0]
SHOWN = [line[2:] for _, text in BLOCK.findall(SECTION) for line in text.splitlines() if line.startswith("$ ansible")]
"""The commands of Ansible on the page for operators."""


@pytest.fixture(scope="module")
def pyz(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """hostrouting.pyz, in a directory with a space in its name."""
    built, path = tmp_path_factory.mktemp("built"), tmp_path_factory.mktemp("with a space") / "hostrouting.pyz"
    words = ["make", "pyz", f"--old-file={sys.prefix}/ready", f"VENV={sys.prefix}", f"DIST={built}"]
    subprocess.run(words, cwd=Path(__file__).resolve().parents[2], check=True)
    return (built / "hostrouting.pyz").rename(path)


def document(module: str, name: str) -> Any:
    """DOCUMENTATION, EXAMPLES or RETURN of a module."""
    tree = ast.parse((COLLECTION / f"plugins/modules/{module}.py").read_text(encoding="utf-8"))
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == name:
            return yaml.safe_load(ast.literal_eval(statement.value))
    raise AssertionError(name)


class TestTheCollection:
    """What can be said about it without a node."""

    def test_version(self) -> None:
        """The version of the collection is ours, as a semantic version."""
        galaxy = yaml.safe_load((COLLECTION / "galaxy.yml").read_text(encoding="utf-8"))
        assert galaxy["version"] == re.sub(r"(a|b|rc)(\d+)$", r"-\1\2", hostrouting.__version__)
        assert (galaxy["namespace"], galaxy["name"]) == COLLECTION.parts[-2:]

    def test_install(self, tmp_path: Path) -> None:
        """The commands on the page build and install it; what is installed has the licence and the playbook.

        Kills: a collection without either, and a link in it that leads out of it.
        """
        (tmp_path / "examples").symlink_to(ROOT / "examples")
        shutil.copy(EXAMPLE / "inventory.yml", tmp_path)
        commands = [line for line in SHOWN if "-galaxy " in line or "hostrouting.node.roll_out" in line]
        assert len(commands) == 3
        lines = " && ".join([*commands, "true"]).replace("roll_out &&", "roll_out --list-tasks &&")
        done = ansible("bash", "-c", lines, cwd=tmp_path, home=tmp_path)
        assert done.returncode == 0, done.stderr
        assert "Check the routing" in done.stdout
        [licence] = tmp_path.glob("collections/ansible_collections/hostrouting/node/LICENSE")
        assert licence.read_text() == (ROOT / "LICENSE").read_text()

    def test_oldest_ansible(self) -> None:
        """The oldest version of Ansible is the same for the collection, pip and the pages."""
        [oldest] = re.findall(
            r'^requires_ansible: ">=([\d.]+)\.0"$', (COLLECTION / "meta/runtime.yml").read_text(encoding="utf-8")
        )
        assert f'"ansible-core>={oldest}"' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")
        assert f"ansible-core {oldest} or newer" in SECTION
        assert f"| ansible-core, for the collection only | {oldest} |" in page("limits")

    def test_documented_options(self) -> None:
        """Each option that an action accepts is documented with its type, its default and its choices."""
        program = "import importlib, json, sys\nprint(json.dumps([importlib.import_module(f'ansible_collections.hostrouting.node.plugins.action.{it}').ARGUMENTS for it in sys.argv[1:]]))"
        done = subprocess.run(
            [sys.executable, "-c", program, *MODULES],
            env={**os.environ, "PYTHONPATH": f"{EXAMPLE}:{ROOT}"},
            capture_output=True,
            check=True,
            timeout=60,
        )
        for module, accepted in zip(MODULES, json.loads(done.stdout), strict=True):
            options = document(module, "DOCUMENTATION")["options"]
            for option in options.values():
                del option["description"]
            assert accepted["argument_spec"] == options

    def test_examples(self) -> None:
        """Each example, in the modules and on the page, uses options that exist, and each named return value exists."""
        tasks = [task for module in MODULES for task in document(module, "EXAMPLES")]
        tasks += yaml.safe_load(next(text for language, text in BLOCK.findall(SECTION) if language == "yaml"))
        options = {
            f"hostrouting.node.{module}": set(document(module, "DOCUMENTATION")["options"]) for module in MODULES
        }
        used = [(name, set(task[name])) for task in tasks for name in options if name in task]
        assert len(used) == 7
        assert all(given <= options[name] for name, given in used)

    @pytest.mark.nightly
    def test_validate_modules(self, tmp_path: Path) -> None:
        """`ansible-test sanity --test validate-modules` finds nothing, except that the licence is MIT."""
        folder = tmp_path / "ansible_collections/hostrouting/node"
        shutil.copytree(COLLECTION, folder, ignore=shutil.ignore_patterns("__pycache__"))
        # Each version of ansible-core reads a file of its own, and the newest may be newer than the collection.
        newest = max((folder / "tests/sanity").iterdir(), key=lambda it: [int(n) for n in re.findall(r"\d+", it.name)])
        release = ".".join(metadata.version("ansible-core").split(".")[:2])
        shutil.copy(newest, tmp_path / "ignored")
        shutil.move(tmp_path / "ignored", folder / f"tests/sanity/ignore-{release}.txt")
        assert validated(folder, tmp_path) == ""
        shutil.rmtree(folder / "tests")
        assert set(re.findall(r"^ERROR: plugins/\S+: ([\w-]+): ", validated(folder, tmp_path), re.MULTILINE)) == {
            "missing-gplv3-license"
        }

    def test_ansible_doc(self, tmp_path: Path) -> None:
        """`ansible-doc` shows both modules with every option."""
        words = ["ansible-doc", *(f"hostrouting.node.{module}" for module in MODULES)]
        done = ansible(*words, cwd=EXAMPLE, home=tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        for module in MODULES:
            named = document(module, "DOCUMENTATION")
            assert f"hostrouting.node.{module}" in done.stdout
            assert named["description"][0].split(".")[0][:40] in done.stdout
            assert all(re.search(rf"^(- |  +){option}(\s|$)", done.stdout, re.MULTILINE) for option in named["options"])

    def test_without_hostrouting(self, tmp_path: Path) -> None:
        """A controller without hostrouting says in one sentence what to install, and where."""
        (tmp_path / "hostrouting.py").write_text("raise ImportError('it is not here')")
        words = ["ansible", "localhost", "-m", "hostrouting.node.host_routing_facts"]
        done = ansible(*words, cwd=EXAMPLE, home=tmp_path, PYTHONPATH=str(tmp_path))
        assert done.returncode == 2
        told = "the Python that runs Ansible on the controller cannot import hostrouting (it is not here); install it there: "
        named = re.search(rf"{re.escape(told)}(\S+) -m pip install hostrouting", done.stdout + done.stderr)
        assert named is not None
        assert Path(named[1]).parent.samefile(Path(sys.executable).parent)  # the environment may be a link


def ansible(*words: str, cwd: Path, home: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program of Ansible, which keeps its files in this home."""
    return completed(
        words,
        cwd=cwd,
        env={
            **os.environ,
            "PATH": f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}",
            "HOME": str(home),
            "ANSIBLE_HOME": str(home),
            "ANSIBLE_NOCOLOR": "1",
            **environment,
        },
    )


# ansible-test would install what a test needs into an environment of its own, from the network. Its name has a checksum
# of what that is; the packages are in the environment of these tests.
_ENVIRONMENT = """
import sys
from ansible_test._internal.commands.sanity import hash_pip_commands
from ansible_test._internal.host_configs import NativePythonConfig
from ansible_test._internal.python_requirements import collect_requirements
python = NativePythonConfig(version="%d.%d" % sys.version_info[:2], path=sys.executable)
told = dict(controller=True, command=None, ansible=False, coverage=False, minimize=False, sanity="validate-modules")
print(f"sanity.validate-modules/{python.version}/{hash_pip_commands(collect_requirements(python=python, **told))}")
"""


def validated(folder: Path, home: Path) -> str:
    """The errors that validate-modules finds in a collection; empty if it ran and found none."""
    name = completed([sys.executable, "-c", _ENVIRONMENT], check=True).stdout.strip()
    environment = home / ".ansible/test/venv" / name
    (environment / "bin").mkdir(parents=True, exist_ok=True)
    python = environment / "bin/python"
    python.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
    python.chmod(0o755)
    (environment / "meta.yaml.json").write_text("true")
    (environment / "marker.txt").touch()
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    words = ["ansible-test", "sanity", "--test", "validate-modules", "--python", version, "--color", "no"]
    done = ansible(*words, cwd=folder, home=home, PYTHONPATH="")
    told = done.stdout + done.stderr
    assert 'Running sanity test "validate-modules"' in told
    errors = "".join(f"{line}\n" for line in told.splitlines() if line.startswith(("ERROR:", "FATAL:")))
    assert bool(errors) is bool(done.returncode), told
    return errors


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that starts hostrouting from here, four times as fast as from hostrouting.pyz."""
    path = tmp_path_factory.mktemp("another space") / "hostrouting"
    start = "from hostrouting.cli import main; sys.exit(main())"
    path.write_text(f"import sys; sys.path.insert(0, {str(ROOT)!r}); {start}\n")
    return path


@pytest.fixture(scope="module")
def one(installed: Path) -> Iterator[Controller]:
    """A controller with one node."""
    with ansible_fleet(["node"], pyz=installed, config=WARN) as controller:
        yield controller


def routing(name: str, **options: Any) -> dict[str, Any]:
    """A task that uses `host_routing`; one that fails does not end the play."""
    keywords: dict[str, Any] = {
        key: options.pop(key) for key in ("check_mode", "diff", "environment") if key in options
    }
    given = {"pyz": "{{ hostrouting_pyz }}", "program": PROGRAM, **options}
    task: dict[str, Any] = {"name": name, "hostrouting.node.host_routing": given, "become": True, "ignore_errors": True}
    return {**task, **keywords}


def script(node: Node, name: str, text: str) -> None:
    """Write a shell script into /mnt/bin of the node."""
    command = (
        f"mkdir -p /mnt/bin; printf '%s\\n' '#!/bin/sh' {shlex.quote(text)} >/mnt/bin/{name}; chmod +x /mnt/bin/{name}"
    )
    node.machine.shell(command)


def planned(node: Node, config: dict[str, Any]) -> Outcome:
    """What our own plan says on the node."""
    words = [sys.executable, "-m", "hostrouting", "plan", "--config", "-", "--json"]
    done = node.machine.run(*words, text=json.dumps(config), PYTHONPATH=str(ROOT), LC_ALL="C.UTF-8")
    return outcome_of({"plan": Ran(done.returncode, done.stdout, done.stderr)})


@pytest.mark.needs("root", "ssh", "sshd")
class TestOneNode:
    """The modules on a node, where Ansible logs in as a user without rights and becomes root."""

    def test_dry_run(self, one: Controller) -> None:
        """On a node without the program, check mode and its difference are our plan, and nothing is changed."""
        node = one.nodes["node"]
        plan = planned(node, WARN)
        it = one.play([routing("dry", config=WARN)], "--check", "--diff").of("node").result
        assert (it["changed"], it["msg"], it["verdict"]) == (True, plan.message, "ok")
        assert it["diff"] == {"before": plan.before, "after": f"file {PROGRAM}\n{plan.after}"}
        assert it["steps"] == [dict(step) for step in plan.steps]
        assert (node.routes(), node.files(), node.left()) == ([], "", "")

    @pytest.mark.nightly
    def test_there_and_back(self, one: Controller, pyz: Path) -> None:
        """With hostrouting.pyz, a second run and a second removal change nothing, and nothing of hostrouting is left."""
        node = one.nodes["node"]
        plan = planned(node, WARN)
        script(node, "chatty", f'echo "Welcome to this node"; exec {shlex.quote(sys.executable)} {PROGRAM} "$@"')
        removal: dict[str, Any] = {"state": "absent", "config": None}
        played = one.play(
            [
                routing("apply", config=WARN, diff=True),
                routing("again", config=WARN, pyz=None, program="/mnt/bin/chatty"),
                {"name": "facts", "hostrouting.node.host_routing_facts": {"config": WARN, "snapshot": True}},
                {"name": "short facts", "hostrouting.node.host_routing_facts": {"config": WARN}},
                routing("strict", config=LACKING),
                routing("dry without strict", config=WARN, check_mode=True),
                routing("dry removal", check_mode=True, diff=True, **removal),
                routing("removal", **removal),
                routing("second removal", **removal),
            ],
            "-v",
            "-e",
            json.dumps({"hostrouting_pyz": str(pyz)}),
        )
        assert played.code == 0, played.out
        assert "DEPRECATION" not in played.out
        assert '"hostrouting/snapshot' not in played.out
        assert set(played.of("node", "short facts").result["ansible_facts"]["host_routing"]) == {
            "message",
            "verdict",
            "check",
        }
        apply, again, facts = (played.of("node", it).result for it in ("apply", "again", "facts"))
        assert (apply["changed"], apply["verdict"]) == (True, "ok")
        assert apply["diff"] == {"before": plan.before, "after": f"file {PROGRAM}\n{plan.after}"}
        assert (again["changed"], again["verdict"], "diff" in again) == (False, "ok", False)
        assert again["msg"].startswith("NOTHING TO DO")
        assert (facts["changed"], facts["verdict"], facts["msg"]) == (False, "ok", "OK: nothing escapes")
        snapshot = Snapshot.from_json(json.dumps(facts["ansible_facts"]["host_routing"]["snapshot"]))
        assert [str(route.prefix) for route in snapshot.routes if route.protocol == 213] == [
            half["destination"] for half in HALVES
        ]
        assert facts["ansible_facts"]["host_routing"]["check"]["schema"] == "hostrouting/check/3"
        strict = played.of("node", "strict")
        assert strict.status == "ignored"
        assert (strict.result["changed"], strict.result["verdict"]) == (True, "overlap")
        assert "OVERLAP: expected CIDR 172.16.0.0/16 (172.16.128.0" in strict.result["msg"]
        assert [it["destination"] for it in strict.result["repair"]] == ["172.16.128.0/17"]
        milder = played.of("node", "dry without strict")
        assert (milder.result["changed"], "--allow-removal" in milder.result["msg"]) == (True, False)
        dry, removed, second = (played.of("node", it).result for it in ("dry removal", "removal", "second removal"))
        assert (dry["changed"], removed["changed"], second["changed"]) == (True, True, False)
        assert dry["msg"].replace("TO DO", "DONE") == removed["msg"]
        assert f"file {PROGRAM}\nroute {ROUTES[0]} proto hostrouting\n" in dry["diff"]["before"]
        assert dry["diff"]["after"] == f"file {PROGRAM}\n"
        assert (node.routes(), node.files(), node.left()) == ([], "", f"/mnt/bin/chatty\n{PROGRAM}\n")

    @pytest.mark.nightly
    def test_what_fails(self, one: Controller, pyz: Path) -> None:
        """Each failure says what to do, and a wrong configuration is refused before the node is asked."""
        node = one.nodes["node"]
        (one.folder / "agent.json").write_text(
            '{"token": "secret", "hostRouting": {"routeOverlap": {"mode": "STRIKT"}}}'
        )
        (one.folder / "password").write_text("open")
        vault = ("--vault-password-file", "password")
        assert one.run("ansible-vault", "encrypt", *vault, "agent.json").code == 0
        script(node, "other", 'echo "$WHY" >&2; exit 7')
        played = one.play(
            [
                routing("unknown key", config={"routeOverlaps": {}}),
                routing("file", config_file="agent.json"),
                routing("nothing to apply"),
                routing("no program", config=WARN, pyz=None, program="/mnt/bin/absent"),
                routing("relative", config=WARN, program="bin/hostrouting"),
                routing("cannot be written", config=WARN, program="/proc/hostrouting"),
                routing("other", config=WARN, pyz=None, program="/mnt/bin/other", environment={"WHY": "a reason"}),
                routing("slow", config=WAITS, wait=300, timeout=2),
                {
                    **routing("not root", config=WARN, pyz=str(pyz), program="/etc/hostrouting"),
                    "become": False,
                    "vars": {"ansible_python_interpreter": "/usr/bin/python3"},  # ours may be only for root
                },
            ],
            *vault,
        )
        assert played.code == 0, played.out
        told = {task.task: task.result["msg"] for task in played.tasks}
        assert {task.status for task in played.tasks} == {"ignored"}
        assert told["unknown key"] == "config: routeOverlaps: unknown key; did you mean routeOverlap?"
        assert 'agent.json: hostRouting.routeOverlap.mode: "STRIKT" is not a mode' in told["file"]
        assert "secret" not in played.out
        assert "state is present but any of the following are missing: config, config_file" in told["nothing to apply"]
        assert (
            "the node has no program /mnt/bin/absent; either set pyz to hostrouting.pyz on the controller"
            in told["no program"]
        )
        assert "program: 'bin/hostrouting' is not an absolute path on the node" in told["relative"]
        assert "/proc/hostrouting could not be written on the node" in told["cannot be written"]
        assert (
            "hostrouting apply did not print its document on the node; it ended with exit code 7; its message: a reason"
            in told["other"]
        )
        assert "'hostrouting apply' did not end within 2 s on the node, and was stopped" in told["slow"]
        assert "/etc/hostrouting could not be written on the node" in told["not root"]
        assert node.routes() == []

    @pytest.mark.nightly
    def test_guard(self, one: Controller, pyz: Path) -> None:
        """The service of the guard runs the program that the collection has copied, unless the configuration names one."""
        node = one.nodes["node"]
        guarded = {**WARN, "guard": {"enabled": True}}
        named = {**WARN, "guard": {"enabled": True, "program": "/opt/agent/bin/hostrouting"}}
        # The Python of these tests has hostrouting, and a program for it; that of a fresh node may even lack attrs.
        plain = {"ansible_python_interpreter": os.path.realpath(sys.executable), "hostrouting_pyz": str(pyz)}
        service = f"/proc/{node.machine.pid}/root/etc/systemd/system/hostrouting-guard.service"
        dry = one.play([{**routing("dry", config=guarded), "vars": plain}], "--check", "--diff").of("node")
        assert (dry.status, dry.result["verdict"]) == ("ok", "ok"), dry.result["msg"]
        apply = one.play([{**routing("apply", config=guarded), "vars": plain}]).of("node")
        assert (apply.status, apply.result["changed"]) == ("ok", True), apply.result["msg"]
        assert f"ExecStart={PROGRAM} guard" in Path(service).read_text(encoding="utf-8")
        other = one.play([{**routing("other", config=named), "vars": plain}]).of("node")
        assert other.status == "ok", other.result["msg"]
        assert "ExecStart=/opt/agent/bin/hostrouting guard" in Path(service).read_text(encoding="utf-8")
        spaced = one.play([routing("spaced", config=guarded, program="/mnt/two words/hostrouting")], "--check")
        assert '"/mnt/two words/hostrouting" is not an absolute path' in spaced.of("node").result["msg"]
        assert one.play([routing("removal", state="absent")]).code == 0
        node.machine.shell(f"rm {PROGRAM}")
        assert (node.routes(), node.files()) == ([], "")

    @pytest.mark.nightly
    def test_the_right_file(self, one: Controller) -> None:
        """A shell that prints a line makes no run a change; a program that cannot be started by hand is put right."""
        node = one.nodes["node"]
        apply = routing("apply", config=WARN)
        assert one.play([apply]).of("node").result["changed"] is True
        script(node, "chatty", 'echo "Welcome to this node"; exec /bin/sh "$@"')
        node.machine.shell("sed -i 's,:/bin/sh$,:/mnt/bin/chatty,' /etc/passwd")
        chatty = one.play([apply]).of("node")
        node.machine.shell("sed -i 's,:/mnt/bin/chatty$,:/bin/sh,' /etc/passwd")
        assert (chatty.status, chatty.result["changed"]) == ("ok", False), chatty.result["msg"]
        node.machine.shell(f"chmod 644 {PROGRAM}")
        mended = one.play([{**apply, "diff": True}]).of("node").result
        assert (mended["changed"], mended["msg"].startswith("NOTHING TO DO")) == (True, True)
        assert mended["diff"]["before"].startswith(f"file {PROGRAM} (not executable)\n")
        assert node.machine.shell(f"stat -c %a {PROGRAM}") == "755\n"
        assert one.play([routing("removal", state="absent")]).code == 0
        node.machine.shell("rm /mnt/bin/*")

    @pytest.mark.nightly
    def test_python(self, one: Controller) -> None:
        """A node with an old Python and one where a command cannot run give different errors."""
        node = one.nodes["node"]
        script(node, "old", f'exec {shlex.quote(sys.executable)} -c "import sys; sys.version_info = (3, 6); $2"')
        script(node, "refuses", 'echo "not you" >&2; exit 1')
        become = {"ansible_become_method": "ansible.builtin.su", "ansible_become_exe": "/mnt/bin/refuses"}
        played = one.play(
            [
                {**routing("old", config=WARN), "vars": {"ansible_python_interpreter": "/mnt/bin/old"}},
                {**routing("absent", config=WARN), "vars": {"ansible_python_interpreter": "/mnt/bin/absent"}},
                {**routing("refused", config=WARN), "vars": become},
                routing("right", config=WARN),
            ],
            "--check",
        )
        old, absent, refused, right = (played.of("node", it) for it in ("old", "absent", "refused", "right"))
        assert [it.status for it in (old, absent, refused, right)] == ["ignored", "ignored", "ignored", "ok"]
        assert (old.result["python"], absent.result["python"], right.result["python"]) == (False, False, True)
        assert "there is no Python 3.10 or newer on the node: /mnt/bin/old is Python 3.6" in old.result["msg"]
        assert "/mnt/bin/absent could not be started" in absent.result["msg"]
        assert "ansible_python_interpreter" in absent.result["msg"]
        assert "python" not in refused.result
        assert "not you" in refused.result["msg"]
        node.machine.shell("rm /mnt/bin/old /mnt/bin/refuses")

    @pytest.mark.nightly
    @pytest.mark.parametrize(
        ("breaks", "mends", "told"),
        [
            ("mount --bind /etc /etc; mount -o remount,ro,bind /etc", "umount /etc", "Read-only file system"),
            (
                f"mkdir -p {FILES}; mount -t tmpfs -o size=4k tmpfs {FILES}; cat /dev/zero >{FILES}/full || true",
                f"umount {FILES}; rmdir {FILES}",
                "No space left on device",
            ),
            ("ip route del default", "ip route add default via 10.0.0.1 dev eth0", "default route"),
        ],
        ids=["read-only", "full", "no default route"],
    )
    def test_a_dry_run_that_fails(self, one: Controller, breaks: str, mends: str, told: str) -> None:
        """A dry run fails with the reason of the run, where that fails."""
        node = one.nodes["node"]
        node.machine.shell(breaks)
        played = one.play([routing("dry", config=WARN, check_mode=True), routing("run", config=WARN, wait=0)])
        node.machine.shell(mends)
        assert one.play([routing("removal", state="absent")]).code == 0
        node.machine.shell(f"rm -f {PROGRAM}")
        for it in ("dry", "run"):
            assert played.of("node", it).status == "ignored"
            assert told in played.of("node", it).result["msg"]

    @pytest.mark.nightly
    def test_read_only(self, one: Controller) -> None:
        """A dry run fails like the run if the program cannot be written; both name what to change."""
        node = one.nodes["node"]
        node.machine.shell("mkdir -p /mnt/fixed && mount -t tmpfs -o ro tmpfs /mnt/fixed")
        there = "/mnt/fixed/bin/hostrouting"
        tasks = [
            routing("dry", config=WARN, program=there, check_mode=True),
            routing("run", config=WARN, program=there),
        ]
        played = one.play(tasks)
        node.machine.shell("umount /mnt/fixed && rmdir /mnt/fixed")
        for it in ("dry", "run"):
            assert played.of("node", it).status == "ignored"
            assert f"{there} could not be written on the node" in played.of("node", it).result["msg"]
            assert "name another path with program" in played.of("node", it).result["msg"]
        assert node.routes() == []

    @pytest.mark.nightly
    def test_decrypted(self, one: Controller) -> None:
        """During a play, no decrypted copy of an encrypted file stays on the controller."""
        (one.folder / "vault.json").write_text('{"token": "secret", "hostRouting": {}}')
        (one.folder / "password").write_text("open")
        vault = ("--vault-password-file", "password")
        assert one.run("ansible-vault", "encrypt", *vault, "vault.json").code == 0
        played = one.play(
            [
                {"name": "facts", "hostrouting.node.host_routing_facts": {"config_file": "vault.json"}},
                {
                    "name": "left",
                    "ansible.builtin.debug": {
                        "msg": f"{{{{ lookup('pipe', 'grep -rl sec[r]et {one.short}/local; true') }}}}"
                    },
                },
            ],
            *vault,
        )
        assert played.code == 0, played.out
        assert played.of("node", "left").result["msg"] == ""

    @pytest.mark.nightly
    def test_lost_connection(self, one: Controller) -> None:
        """If the sshd dies while a run changes the node, the node is unreachable, and the message says what is not known."""
        node = one.nodes["node"]
        script(node, "slow", "touch /mnt/started; exec sleep 60")
        started = f"/proc/{node.machine.pid}/root/mnt/started"
        kill = f"until [ -e {started} ]; do sleep 0.05; done; kill -9 {node.daemon.pid}"
        with subprocess.Popen(["timeout", "300", "sh", "-c", kill]) as watcher:
            played = one.play([routing("apply", config=WARN, pyz=None, program="/mnt/bin/slow")])
            assert watcher.wait(300) == 0
        it = played.of("node")
        assert (played.code, it.status) == (4, "unreachable")
        assert "the connection was lost while 'hostrouting apply' ran on the node" in it.result["msg"]
        assert "--check --diff" in it.result["msg"]


@pytest.fixture(scope="module")
def fleet(installed: Path) -> Iterator[Controller]:
    """Six nodes: on gpu-3 another program's route captures addresses, gpu-5 has no Python, and the sshd of gpu-6 is dead."""
    names = [f"gpu-{number}" for number in (1, 6, 2, 3, 4, 5)]
    with ansible_fleet(names, pyz=installed, config=WARN, no_python=["gpu-5"]) as controller:
        controller.nodes["gpu-3"].machine.batch(["route add 172.16.5.0/24 dev ib1 proto static"])
        controller.nodes["gpu-6"].die()
        yield controller


def roll_out(fleet: Controller, *more: str) -> Played:
    """Run the command that the page shows for a roll-out."""
    return fleet.run(*shlex.split(next(it for it in SHOWN if it.endswith("roll_out.yml"))), *more)


def roll_out_only(fleet: Controller, known: dict[str, Any], *names: str, limit: int | None = None) -> Played:
    """Run only the second play on these nodes, which have just answered, with these variables.

    `limit` replaces the time limit of the task that applies the configuration.
    """
    [_, second] = yaml.safe_load((fleet.folder / "roll_out.yml").read_text(encoding="utf-8"))
    if limit is not None:
        second["tasks"][0]["timeout"] = limit
    (fleet.folder / "second.yml").write_text(json.dumps([{**second, "hosts": ",".join(names)}]))
    return fleet.run("ansible-playbook", "second.yml", "-e", json.dumps(known))


BATCHES = ("-e", json.dumps({"hostrouting_batches": [1, 2, "100%"], "hostrouting_absent": 20}))
APPLY, AGAIN = "Apply the configuration", "Check the routing again, on the controller"
STOP = "Stop if this node is not right"
ABSENT, UNCHECKED = "Stop if too many nodes do not answer", "Stop if nothing would be checked"


def test_time_limits() -> None:
    """Each task of the playbook that runs on a node has a time limit."""
    plays = yaml.safe_load((EXAMPLE / "roll_out.yml").read_text(encoding="utf-8"))
    tasks = [task for play in plays for task in play["tasks"]]
    local = {"ansible.builtin.fail", "ansible.builtin.group_by"}
    remote = [task for task in tasks if not local & set(task)]
    assert len(remote) == 3
    assert all("timeout" in task for task in remote)


def test_host_vars() -> None:
    """The configuration of one node on the page is accepted."""
    [shown] = [text for language, text in BLOCK.findall(SECTION) if language == "yml"]
    config = yaml.safe_load(shown)["hostrouting_config"]
    assert hostrouting.HostRoutingConfig.from_mapping(config).route_overlap.expected_devs == ("eth1",)


@pytest.mark.needs("root", "ssh", "sshd")
class TestRollOut:
    """The playbook, on six nodes in three batches. The tests are parts of one story."""

    @pytest.mark.nightly
    def test_the_story(self, fleet: Controller) -> None:
        """A dry run sees all nodes; a batch in which an address escapes is the last; when it is right, the rest follows."""
        nodes = fleet.nodes

        dry = fleet.run(*shlex.split(next(it for it in SHOWN if "--check" in it)), *BATCHES)
        assert {task.node for task in dry.tasks if task.task == APPLY} == {"gpu-1", "gpu-2", "gpu-3", "gpu-4", "gpu-5"}
        assert dry.of("gpu-4", APPLY).result["diff"]["after"].startswith(f"file {PROGRAM}\nroute {ROUTES[0]} proto")
        assert dry.of("gpu-3", STOP).status == "failed"
        assert "routes via ib1 [172.16.5.0/24 proto static]" in dry.of("gpu-3", STOP).result["msg"]
        assert dry.of("gpu-6").status == "unreachable"
        assert not any(node.routes() or node.files() or node.left() for node in nodes.values())

        absent = roll_out(fleet)
        assert absent.code != 0, absent.out
        assert "1 of 6 nodes have not answered, more than 10 %" in absent.of("gpu-1", ABSENT).result["msg"]
        unchecked = roll_out(fleet, *BATCHES, "-e", json.dumps({"hostrouting_config": WAITS}))
        assert unchecked.code != 0, unchecked.out
        assert "hostrouting_config is empty" in unchecked.of("gpu-1", UNCHECKED).result["msg"]
        assert not any(task.task == APPLY for task in (*absent.tasks, *unchecked.tasks))

        stopped = roll_out(fleet, *BATCHES)
        assert stopped.code != 0, stopped.out
        assert stopped.statuses("gpu-1")[AGAIN] == "ok"
        assert [stopped.of(it, STOP).status for it in ("gpu-2", "gpu-3")] == ["skipped", "failed"]
        assert "routes via ib1 [172.16.5.0/24 proto static]" in stopped.of("gpu-3", STOP).result["msg"]
        assert [len(nodes[it].routes()) for it in sorted(nodes)] == [2, 2, 2, 0, 0, 0]
        assert not any(APPLY in stopped.statuses(it) for it in ("gpu-4", "gpu-5", "gpu-6"))
        assert not any(nodes[it].files() or nodes[it].left() for it in ("gpu-4", "gpu-5", "gpu-6"))

        nodes["gpu-3"].machine.batch(["route del 172.16.5.0/24 dev ib1"])
        without_python = roll_out(fleet, *BATCHES)
        assert without_python.code != 0, without_python.out
        changed = {(task.node, task.task) for task in without_python.tasks if task.result.get("changed")}
        assert changed == {("gpu-4", APPLY)}
        assert without_python.of("gpu-5", APPLY).status == "ignored"
        judged = without_python.of("gpu-5", AGAIN)
        assert (judged.status, judged.result["verdict"]) == ("ignored", "overlap")
        assert without_python.of("gpu-5", STOP).status == "failed"
        told = without_python.of("gpu-5", STOP).result["msg"]
        assert told.startswith("checked only, not configured: there is no Python 3.10 or newer on the node: ")
        assert "routes via ib0" in told

        # With routes that were added by hand, nothing escapes on gpu-5. But hostrouting has installed nothing there.
        nodes["gpu-5"].machine.batch([f"route add {route}" for route in ROUTES])
        by_hand = roll_out(fleet, *BATCHES, "--limit", "gpu-5")
        assert (by_hand.code, by_hand.of("gpu-5", AGAIN).status) == (2, "ok"), by_hand.out
        assert by_hand.of("gpu-5", STOP).result["msg"].startswith("checked only, not configured: ")
        known = roll_out(fleet, *BATCHES, "--limit", "gpu-5", "-e", "hostrouting_check_only=true")
        assert (known.code, known.of("gpu-5", STOP).status) == (0, "skipped"), known.out

        nodes["gpu-2"].die()
        lost = roll_out_only(fleet, {"hostrouting_batches": [2, 1]}, "gpu-1", "gpu-2", "gpu-3")
        assert (lost.code, lost.of("gpu-1", APPLY).status, lost.of("gpu-2", APPLY).status) == (2, "ok", "unreachable")
        assert [lost.of(it, STOP).status for it in ("gpu-1", "gpu-2")] == ["skipped", "failed"]
        assert lost.statuses("gpu-3") == {}

        hangs = roll_out_only(fleet, {"hostrouting_config": WAITS}, "gpu-1", limit=4)
        assert (hangs.code, hangs.of("gpu-1", APPLY).status) == (2, "ignored"), hangs.out
        assert "; it is not known what was done on the node; to see it, run" in hangs.of("gpu-1", STOP).result["msg"]

        [remove] = [it for it in SHOWN if "absent" in it]
        removed = fleet.run(*shlex.split(remove), "--limit", "gpu-4")
        assert removed.code == 0, removed.out
        assert (nodes["gpu-4"].routes(), nodes["gpu-4"].files()) == ([], "")
