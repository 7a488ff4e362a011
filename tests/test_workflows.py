"""The GitHub workflows: what they may do, what they run, and that what they call is there."""

import importlib.util
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))

each_workflow = pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)


def load(path):
    return yaml.load(
        path.read_text(encoding="utf-8"), yaml.BaseLoader
    )  # every value a text, and `on` a plain key


def steps(path):
    return [step for job in load(path)["jobs"].values() for step in job["steps"]]


def commands(path):
    return [line.strip() for step in steps(path) for line in step.get("run", "").splitlines() if line.strip()]


def test_the_workflows_are_there():
    assert [path.stem for path in WORKFLOWS] == ["test", "weekly"]


@each_workflow
def test_a_workflow_may_only_read(path):
    workflow = load(path)
    assert workflow["permissions"] == {"contents": "read"}
    assert not any("permissions" in job for job in workflow["jobs"].values())
    assert "pull_request_target" not in workflow["on"] and "workflow_run" not in workflow["on"]
    text = path.read_text(encoding="utf-8")
    assert "secrets." not in text and "github.event" not in text and "github.head_ref" not in text
    assert not any("${{" in command for command in commands(path)), (
        "an expression would be pasted into the shell"
    )


@each_workflow
def test_a_workflow_ends_and_does_not_pile_up(path):
    workflow = load(path)
    assert workflow["concurrency"]["cancel-in-progress"] == "true"
    assert all(0 < int(job["timeout-minutes"]) <= 90 for job in workflow["jobs"].values())


@each_workflow
def test_actions_are_pinned_by_commit(path):
    for step in steps(path):
        if "uses" in step:
            assert re.fullmatch(r"actions/[\w-]+@[0-9a-f]{40}", step["uses"]), step["uses"]
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] == "false"
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if "uses:" in line]
    assert lines and all(re.search(r"@[0-9a-f]{40} # v\d+\.\d+\.\d+$", line) for line in lines)


def test_an_action_has_one_commit_everywhere():
    text = "".join(path.read_text(encoding="utf-8") for path in WORKFLOWS)
    pins = set(re.findall(r"uses: (\S+)@(\S+) # (\S+)", text))
    assert len(pins) == len({name for name, *_ in pins})


def test_each_change_is_tested_on_each_system_with_the_oldest_and_the_newest_python():
    workflow = load(ROOT / ".github" / "workflows" / "test.yml")
    assert set(workflow["on"]) == {"push", "pull_request"}
    job = workflow["jobs"]["test"]
    matrix = job["strategy"]["matrix"]
    assert matrix["os"] == ["ubuntu-latest", "macos-latest", "windows-latest"]
    source = (ROOT / ".ci" / "environment.py").read_text(encoding="utf-8")
    limits = [
        re.search(rf"^{name} = \((\d+), (\d+)\)", source, re.MULTILINE).groups()
        for name in ("OLDEST", "NEWEST")
    ]
    assert matrix["python"] == [".".join(limit) for limit in limits]
    assert job["runs-on"] == "${{ matrix.os }}" and job["strategy"]["fail-fast"] == "false"


def test_machines_without_make_run_what_readme_says():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    plain = re.findall(r"^(python -m (?:pip|ruff|pytest).*)$", readme, re.MULTILINE)
    run = commands(ROOT / ".github" / "workflows" / "test.yml")
    assert len(plain) == 4
    assert [command.removesuffix(" $LEFT_OUT") for command in run if command.startswith("python")] == plain


@each_workflow
def test_what_a_workflow_calls_is_there(path):
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert commands(path)
    for command in commands(path):
        program, *rest = command.split()
        if program == "make":
            assert rest[0] in targets, command
        elif program == "bash" or rest[0].startswith(".ci/"):
            assert (ROOT / rest[0]).is_file(), command
        elif program in ("python", ".venv/bin/python"):
            assert rest[0] == "-m" and importlib.util.find_spec(rest[1]), command
        else:
            assert program == "sed", command
        for left_out in re.findall(r"--ignore=(\S+)", command):
            assert (ROOT / left_out).is_file(), command


@pytest.mark.skipif(not (shutil.which("bash") and shutil.which("sed")), reason="needs bash and sed")
def test_the_weekly_run_asks_for_the_newest_of_each_requirement(tmp_path):
    (line,) = [
        command for command in commands(ROOT / ".github/workflows/weekly.yml") if command.startswith("sed")
    ]
    shell = ["bash", "-euc", line]
    subprocess.run(shell, cwd=ROOT, check=True, env={"RUNNER_TEMP": str(tmp_path), "PATH": "/usr/bin:/bin"})
    made = (tmp_path / "newest.txt").read_text(encoding="utf-8")
    pinned = (ROOT / "requirements.txt").read_text(encoding="utf-8")
    names = re.findall(r"^([\w.-]+)==", pinned, re.MULTILINE)
    assert re.findall(r"^([\w.-]+) +#", made, re.MULTILINE) == names
    assert "==" not in made and "constraints" not in re.sub(r"#.*", "", made)


def test_dependabot_watches_the_actions():
    watched = load(ROOT / ".github" / "dependabot.yml")
    assert watched["version"] == "2"
    assert [(entry["package-ecosystem"], entry["directory"]) for entry in watched["updates"]] == [
        ("github-actions", "/")
    ]
