"""The files in `deploy`: their commands exist, and their settings match the guide."""

from __future__ import annotations

import configparser
import json
import re
import shlex
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml
from packaging.requirements import Requirement

from mergewise.cli.main import app
from mergewise.server.configuration import PORT, load_config
from mergewise.server.processes import END_SECONDS

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"


def check_command(words: Sequence[str]) -> None:
    """Check that the command and all its options exist."""
    command: Any = typer.main.get_command(app)
    rest = list(words)
    while commands := getattr(command, "commands", None):
        assert rest[0] in commands, f"no such command: {rest[0]}"
        command, rest = commands[rest[0]], rest[1:]
    command.make_context(command.name, rest)


def instructions() -> list[tuple[str, str]]:
    text = re.sub(r"\\\n\s*", " ", re.sub(r"^#.*\n", "", (DEPLOY / "Containerfile").read_text(), flags=re.M))
    return [(line.partition(" ")[0], line.partition(" ")[2].strip()) for line in text.splitlines() if line.strip()]


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def needed_with(extras: Sequence[str]) -> list[Requirement]:
    """Return the requirements of the package with these extras."""
    own = project()["project"]
    return [Requirement(line) for name in extras for line in own["optional-dependencies"][name]] + [
        Requirement(line) for line in own["dependencies"]
    ]


def make_variable(name: str) -> list[str]:
    return re.search(rf"^{name}\s*:?=(.*)$", (ROOT / "Makefile").read_text(), re.M)[1].split()  # type: ignore[index]


def locked(lock: Path) -> list[tuple[Requirement, list[str]]]:
    """Return the requirements of a lock, each with its hashes."""
    lines = lock.read_text().replace("\\\n", " ").splitlines()
    parts = [re.split(r"\s+--hash=", line.strip()) for line in lines if line.strip()]
    return [(Requirement(requirement), hashes) for requirement, *hashes in parts]


def name_of(requirement: Requirement) -> str:
    return re.sub(r"[-_.]+", "-", requirement.name).lower()


def test_the_container(tmp_path: Path) -> None:
    lines: dict[str, list[str]] = {}
    for name, rest in instructions():
        lines.setdefault(name, []).append(rest)
    assert lines["USER"] == ["10001:10001"] and lines["VOLUME"] == ["/data"] and lines["EXPOSE"] == [str(PORT)]
    # nothing of the base is in the image but its certificates and the packages that are named
    base, lock = (value.partition("=") for value in lines["ARG"])
    assert lines["FROM"] == ["${BASE} AS build", "scratch"] and base[2].endswith("-slim")
    assert lines["STOPSIGNAL"] == ["SIGTERM"]
    assert json.loads(lines["ENTRYPOINT"][0]) == ["mergewise"]
    check_command(json.loads(lines["CMD"][0]))
    (health,) = lines["HEALTHCHECK"]
    words = json.loads(health.partition("CMD ")[2])
    compile(words[2], "health", "exec")
    assert f":{PORT}/readyz" in words[2]
    environment = dict(pair.split("=", 1) for pair in shlex.split(lines["ENV"][-1]))
    assert load_config(tmp_path, environment=environment).host == "0.0.0.0"
    assert Path(environment["MERGEWISE_SERVE_DATA"]).is_relative_to("/data")
    assert Path(environment["XDG_STATE_HOME"]).is_relative_to("/data")
    assert (DEPLOY / f"{lock[2]}.lock").is_file()
    # git reads local repositories by a shell
    programs = lines["RUN"][0].partition("--download-only")[2].partition("&&")[0].split()
    assert {"dash", "git", "python3"} <= set(programs) and "apt" not in programs
    # packages come from a lock with hashes or, like the package itself, from the build; a wheel runs no code when it is installed
    assert "PIP_ONLY_BINARY=:all:" in lines["ENV"][0].split()
    installs = re.findall(r"pip (?:install|wheel) (.*?)\s*(?:&&|$)", lines["RUN"][1])
    assert len(installs) == 4 and all(
        re.fullmatch(r"--require-hashes -r deploy/(build|\$LOCK)\.lock|--no-deps .*(\.|dist/mergewise-\*\.whl)", words)
        for words in installs
    )


SERVER = make_variable("SERVER")
LOCKS = {"server": needed_with(SERVER), "cluster": needed_with([*SERVER, "postgres", "ray"])} | {
    "build": [Requirement(line) for line in project()["build-system"]["requires"]]
}


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_holds_what_the_package_needs(lock: str) -> None:
    pinned = locked(DEPLOY / f"{lock}.lock")
    assert len(pinned) >= len(LOCKS[lock])
    for requirement, hashes in pinned:
        assert re.fullmatch(r"==[\w.+]+", str(requirement.specifier)) and not requirement.url, requirement
        assert hashes and all(re.fullmatch(r"sha256:[0-9a-f]{64}", one) for one in hashes), requirement
    for needed in LOCKS[lock]:
        found = [one for one, _ in pinned if name_of(one) == name_of(needed)]
        assert found, needed
        for one in found:
            assert needed.specifier.contains(str(one.specifier).removeprefix("==")), (needed, one)


@pytest.mark.parametrize("lock", sorted(DEPLOY.glob("*.lock")), ids=lambda lock: lock.stem)
def test_locks_name_no_host_and_agree(lock: Path) -> None:
    assert lock.stem in LOCKS and "://" not in lock.read_text()
    tested = {name_of(one): one.specifier for one, _ in locked(ROOT / "dev.lock") if one.marker is None}
    for one, _ in locked(lock):
        assert tested.get(name_of(one), one.specifier) == one.specifier, f"dev.lock has another {one.name}"


def test_a_server_comes_from_the_lock() -> None:
    """The unit, the manifest and the bill of materials name the locks."""
    unit, manifest = ((DEPLOY / name).read_text() for name in ("mergewise.service", "kubernetes/mergewise.yaml"))
    assert "pip install --require-hashes -r deploy/server.lock" in unit and "--build-arg LOCK=cluster" in manifest
    assert "--require-hashes --requirement deploy/server.lock" in (ROOT / "Makefile").read_text()


def test_all_name_one_image_that_is_locked_the_same_way() -> None:
    """The guide, the Containerfile, the services and the manifest."""
    files = ["deploy/Containerfile", "deploy/kubernetes/mergewise.yaml", "docs/how-to/run-behind-a-proxy.md"]
    text = "".join((ROOT / file).read_text() for file in files)
    builds = re.findall(r"podman build (.+)", text)
    # podman keeps the health check in this format only
    assert len(builds) == 3 and all(
        re.fullmatch(
            r"--format docker -t (REGISTRY/)?mergewise (--build-arg LOCK=cluster )?-f deploy/Containerfile \.", one
        )
        for one in builds
    )
    runs = [words.split() for words in re.findall(r"podman run (.+)", text)]
    assert len(runs) == 2 and runs[0] == runs[1] and runs[0][-1] == "mergewise"
    flags = {"--read-only", "--tmpfs", "/tmp", "ALL", f"127.0.0.1:{PORT}:{PORT}", "mergewise:/data"}
    own = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]["mergewise"]
    assert flags <= {*runs[0]} and own["image"] == "mergewise" and own["tmpfs"] == ["/tmp"]


def test_the_services() -> None:
    text = (DEPLOY / "compose.yaml").read_text()
    services = yaml.safe_load(text)["services"]
    own, model = services["mergewise"], services["llama"]
    check_command(own["command"])
    assert (ROOT / "deploy" / own["build"]["context"] / own["build"]["dockerfile"]).samefile(DEPLOY / "Containerfile")
    assert own["ports"] == [f"127.0.0.1:{PORT}:{PORT}"] and own["volumes"] == ["data:/data"]
    for service in services.values():
        assert service["read_only"] and service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
    assert int(own["stop_grace_period"].removesuffix("s")) > END_SECONDS
    alias, port = (model["command"][model["command"].index(name) + 1] for name in ("--alias", "--port"))
    assert own["environment"]["OPENAI_BASE_URL"] == f"http://llama:{port}/v1"
    assert own["command"][own["command"].index("--chat") + 1] == f"{alias}=openai:{alias}"
    commented = text.partition("# vllm:")[2].partition("\n\n")[0]
    other = yaml.safe_load("vllm:" + re.sub(r"^  # ", "  ", commented, flags=re.M))["vllm"]
    assert other["command"][other["command"].index("--served-model-name") + 1] == alias


def test_the_unit() -> None:
    unit = configparser.ConfigParser(interpolation=None, strict=True)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read(DEPLOY / "mergewise.service")
    service = unit["Service"]
    expected = {"Type": "notify", "DynamicUser": "yes", "ProtectSystem": "strict", "TimeoutStopSec": "15"}
    assert {name: service[name] for name in expected} == expected and service["MemoryMax"]
    assert int(service["TimeoutStopSec"]) > END_SECONDS
    program, *words = shlex.split(service["ExecStart"])
    assert Path(program).name == "mergewise"
    check_command(words)
    assert words[words.index("--port") + 1] == str(PORT)


def test_the_kubernetes_manifest(tmp_path: Path) -> None:
    text = (DEPLOY / "kubernetes" / "mergewise.yaml").read_text()
    objects = list(yaml.safe_load_all(text))
    named = {(one["kind"], one["metadata"]["name"]): one for one in objects}
    assert len(named) == len(objects)
    ray, writer = named["RayCluster", "mergewise"]["spec"], named["Deployment", "mergewise-writer"]["spec"]
    (searchers,) = ray["workerGroupSpecs"]
    pods = [one["template"] for one in (ray["headGroupSpec"], searchers, writer)]
    file = tmp_path / "serve.toml"
    file.write_text(named["ConfigMap", "mergewise"]["data"][file.name])
    created = dict(re.findall(r"create secret generic (\S+) (.+)", text.replace("\\\n#", "")))
    roles = set()
    for pod in pods:
        spec = pod["spec"]
        # Kubernetes would set variables with the prefix of ours
        assert spec["securityContext"]["runAsUser"] == 10001 and spec["enableServiceLinks"] is False
        volumes = {volume["name"] for volume in spec["volumes"]}
        for container in spec["containers"]:
            assert {mount["name"] for mount in container["volumeMounts"]} <= volumes
            assert {"/data", "/tmp"} <= {mount["mountPath"] for mount in container["volumeMounts"]}
            assert container["image"] == "REGISTRY/mergewise" and container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
                "readOnlyRootFilesystem": True,
            }
            secrets = [one["secretRef"]["name"] for one in container["envFrom"]]
            environment = dict(
                pair.split("=", 1) for name in secrets for pair in re.findall(r"from-literal=(\S+)", created[name])
            )
            if container["name"] == "ray":
                silenced = {one["name"]: one["value"] for one in container["env"]}
                assert silenced["RAY_USAGE_STATS_ENABLED"] == "0"
                assert silenced["RAY_USAGE_STATS_REPORT_URL"].startswith("http://127.0.0.1:")
            if container["name"] == "mergewise":
                check_command(container["args"])
                words = iter(container["args"][1:])
                flags = {word.removeprefix("--"): next(words) for word in words}
                assert flags.pop("config") == "/etc/mergewise/serve.toml"
                environment |= {one["name"]: one["value"] for one in container.get("env", ())}
                config = load_config(tmp_path, file, environment, flags)
                roles.add(config.role)
                assert (
                    config.database
                    and config.collections["manual"].path
                    and not config.collections["manual"].is_read_only
                )
    assert roles == {"web", "writer"}
    # a server finds the Ray node of its pod by the processes, and talks to it by its files
    node = pods[0]["spec"]
    files = [{mount["mountPath"] for mount in container["volumeMounts"]} for container in node["containers"]]
    assert node["shareProcessNamespace"] and files[0] == files[1] > {"/tmp", "/dev/shm"}
    service, budget = named["Service", "mergewise"]["spec"], named["PodDisruptionBudget", "mergewise-search"]["spec"]
    assert service["selector"].items() <= pods[0]["metadata"]["labels"].items()
    assert budget["selector"]["matchLabels"].items() <= pods[1]["metadata"]["labels"].items()
    assert not service["selector"].items() <= pods[2]["metadata"]["labels"].items()
    ports = {port["name"]: port["containerPort"] for one in node["containers"] for port in one.get("ports", ())}
    assert ports == {service["ports"][0]["targetPort"]: PORT}
    told = re.findall(r"^#.*? mergewise ((?:index|cluster|server) .+)$", text, flags=re.M)
    assert {line.split()[0] for line in told} == {"index", "cluster", "server"}
    for line in told:
        check_command(shlex.split(line))


def test_unknown_commands_are_noticed() -> None:
    for words in (["serve", "--prot", "1"], ["serve", "--port", "many"], ["server", "nothing"], ["serv"]):
        with pytest.raises(Exception, match=r"(?i)no such|valid integer"):
            check_command(words)
