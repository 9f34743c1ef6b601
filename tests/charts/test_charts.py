"""The charts render what their values say, refuse what they do not know, and leave nothing to be written twice."""

from __future__ import annotations

import base64
import contextlib
import email.message
import json
import runpy
import subprocess
import urllib.error
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from scavenger_admitter.settings import AdmitterSettings
from scavenger_api.names import SETTING_RESOURCE_WEIGHTS, SETTINGS_CONFIGMAP
from scavenger_api.shared_settings import FIELDS, SharedSettings, flag_field, key_of
from scavenger_api.weights import weights_of
from scavenger_board.settings import BoardSettings
from scavenger_prioritizer.settings import PrioritizerSettings
from scavenger_regulator.core.level_policies import parse_policies
from scavenger_regulator.core.levels import ThrottleLines
from scavenger_regulator.core.metrics.added import parse_added
from scavenger_regulator.settings import RegulatorSettings
from scavenger_runtime.settings import ServiceSettings, is_deprecated
from scavenger_testing.manifests import documents
from scavenger_testing.pod_security import violations
from scavenger_webhook.settings import WebhookSettings

from tests.charts import renders
from tools.generate_charts import GIVEN_BY_THE_CHART, camel, moved

pytestmark = pytest.mark.timeout(900)  # helm may have to be built first

ROOT = Path(__file__).resolve().parents[2]
SERVICES: dict[str, type[ServiceSettings]] = {
    "admitter": AdmitterSettings,
    "regulator": RegulatorSettings,
    "prioritizer": PrioritizerSettings,
    "webhook": WebhookSettings,
    "board": BoardSettings,
}
LIBRARY = ROOT / "charts" / "scavenger-library"
UMBRELLA = ROOT / "charts" / "scavenger"
CHARTS = sorted({path.parent for path in (ROOT / "charts").glob("*/Chart.yaml")} - {LIBRARY, UMBRELLA})
BOARD_ICON = "services/board/src/scavenger_board/static/icon.svg"
USERS_OF_THE_LIBRARY = (*SERVICES, "scheduler")
REGISTRY = "registry.example"
AUTHORITY = "Y2VydGlmaWNhdGU="
"""caBundle of an authority that the administrator has made."""

EVERYTHING: dict[str, Any] = {
    "replicas": 3,
    "image": {"registry": "mirror.example", "tag": "1.2.3", "pullPolicy": "Always"},
    "imagePullSecrets": [{"name": "pull"}],
    "resources": {"requests": {"cpu": 2, "memory": "4Gi"}, "limits": {"memory": "8Gi"}},
    "nodeSelector": {"pool": "system"},
    "tolerations": [{"key": "system", "operator": "Exists"}],
    "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}},
    "topologySpreadConstraints": [{"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}],
    "priorityClassName": "",
    "terminationGracePeriodSeconds": 60,
    "podDisruptionBudget": {"maxUnavailable": "50%"},
    "serviceAccount": {"annotations": {"cloud.example/role": "reader"}},
    "service": {"port": 9090, "annotations": {"a": "b"}},
    "serviceMonitor": {"enabled": True, "interval": "15s", "scrapeTimeout": "10s", "labels": {"release": "prometheus"}},
    "labels": {"team": "batch"},
    "podLabels": {"sidecar": "no"},
    "podAnnotations": {"checksum": "1"},
    "extraEnv": [{"name": "HTTPS_PROXY", "value": "proxy.example:3128"}],
    "extraVolumes": [{"name": "token", "secret": {"secretName": "prometheus"}}],
    "extraVolumeMounts": [{"name": "token", "mountPath": "/token", "readOnly": True}],
    "settings": {"logLevel": "debug", "leaseDuration": "1m", "shutdownTimeout": 50},
}


class Chart:
    """A chart, and what helm makes of it."""

    def __init__(self, helm: Path, name: str) -> None:
        self.helm = helm
        self.name = name
        self.folder = ROOT / "charts" / f"scavenger-{name}"

    def package(self, into: Path) -> Path:
        """The chart as one file, in this folder."""
        renders.run_again(self.helm, "package", self.folder, f"--destination={into}").check_returncode()
        (made,) = into.glob(f"{self.folder.name}-*.tgz")
        return made

    def run(self, command: str, values: dict[str, Any], *words: str) -> subprocess.CompletedProcess[str]:
        """Run helm; image.registry is REGISTRY, unless the values say something of the image. The webhook is given an
        authority: without a cluster, the chart makes none.
        """
        if self.name == "webhook" and "caBundle" not in values.get("admission", {}):
            words = (f"--set=admission.caBundle={AUTHORITY}", *words)
        if self.name in USERS_OF_THE_LIBRARY:
            values = {"image": {"registry": REGISTRY}, **values}
        release = ["scavenger"] if command == "template" else []
        return renders.run(self.helm, command, *release, self.folder, "--values=-", *words, stdin=json.dumps(values))

    def objects(
        self, values: dict[str, Any] | None = None, namespace: str = "elsewhere", more: tuple[str, ...] = ()
    ) -> dict[str, dict[str, Any]]:
        """The rendered objects by kind, or kind/name where there are several. more: arguments of helm."""
        done = self.run("template", values or {}, f"--namespace={namespace}", *more)
        assert done.returncode == 0, done.stderr
        found: dict[str, dict[str, Any]] = {}
        for document in documents(done.stdout):
            kind, name = document["kind"], document["metadata"]["name"]
            found[kind if kind not in found else f"{kind}/{name}"] = document
        return found

    def refused(self, values: dict[str, Any]) -> str:
        done = self.run("template", values)
        assert done.returncode != 0, done.stdout
        return done.stderr


def container(deployment: dict[str, Any]) -> dict[str, Any]:
    return dict(deployment["spec"]["template"]["spec"]["containers"][0])


def environment(deployment: dict[str, Any]) -> dict[str, str]:
    return {entry["name"]: entry["value"] for entry in container(deployment)["env"] if "value" in entry}


# --- every chart ---


@pytest.mark.parametrize("chart", [*CHARTS, LIBRARY, UMBRELLA], ids=lambda path: path.name)
def test_version_is_the_project_s(chart: Path) -> None:
    about = yaml.safe_load((chart / "Chart.yaml").read_text())
    project = (ROOT / "pyproject.toml").read_text()

    assert about["name"] == chart.name
    assert f'\nversion = "{about["version"]}"\n' in project
    assert about["appVersion"] == about["version"]
    assert {library["version"] for library in about.get("dependencies", ())} <= {about["version"]}


@pytest.mark.parametrize("name", moved())
def test_a_value_that_moved_is_refused_with_what_to_do(helm: Path, name: str) -> None:
    """As `helm upgrade -f old.yaml` does; a key that no version had is refused by the schema alone."""
    values: dict[str, Any] = {}
    for path in moved()[name]:
        *above, key = path.split(".")
        node = values
        for part in above:
            node = node.setdefault(part, {})
        node[key] = {} if name == "scavenger-webhook" and not above else 1
    chart = Chart(helm, name.removeprefix("scavenger-"))
    said = chart.refused(values)
    assert f"{name} no longer has these values:\n" in said
    assert [path for path, words in moved()[name].items() if f"  {path}: {words}\n" not in f"{said}\n"] == []
    assert "no longer has" not in chart.refused({"imaginary": 1})


def test_values_that_moved_have_no_other_use() -> None:
    for name, paths in moved().items():
        assert name.removeprefix("scavenger-") in SERVICES
        own = {f"settings.{camel(field)}" for field in SERVICES[name.removeprefix("scavenger-")].model_fields}
        assert own.isdisjoint(paths)


@pytest.mark.parametrize("chart", [*CHARTS, UMBRELLA], ids=lambda path: path.name)
def test_the_icon_is_the_board_s(chart: Path) -> None:
    """Helm takes any URL, and Artifact Hub the picture out of a data URL."""
    kind, _, icon = yaml.safe_load((chart / "Chart.yaml").read_text())["icon"].partition(",")

    assert kind == "data:image/svg+xml;base64"
    assert base64.b64decode(icon).strip() == (ROOT / BOARD_ICON).read_bytes().strip()


@pytest.mark.parametrize("chart", CHARTS, ids=lambda path: path.name)
def test_every_value_has_a_default_and_a_schema(chart: Path) -> None:
    def agree(schema: dict[str, Any], values: dict[str, Any]) -> None:
        assert not schema.get("additionalProperties"), chart.name
        assert set(values) == set(schema["properties"]) - handed_down
        for name, child in schema["properties"].items():
            if "properties" in child and values.get(name):
                agree(child, values[name])

    values = yaml.safe_load((chart / "values.yaml").read_text())
    schema = json.loads((chart / "values.schema.json").read_text())
    handed_down = {LIBRARY.name} if "global" in values else {LIBRARY.name, "global"}
    for path in moved().get(chart.name, {}):
        schema["properties"].pop(path, None)  # the chart refuses it
    for loose in ("affinity", "settings"):
        values.pop(loose, None)
        schema["properties"].pop(loose, None)
    agree(schema, values)


@pytest.mark.parametrize("name", [chart.name.removeprefix("scavenger-") for chart in (*CHARTS, LIBRARY)])
@pytest.mark.parametrize("values", [{}, EVERYTHING, {"rbac": {"create": False}}], ids=["default", "all", "no-rbac"])
def test_lint(helm: Path, name: str, values: dict[str, Any]) -> None:
    done = Chart(helm, name).run("lint", values if name in SERVICES else {}, "--strict")

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("name", "values", "named"),
    [
        ("admitter", {"replica": 2}, "'replica'"),
        ("admitter", {"image": {"repo": "x"}}, "'repo'"),
        ("admitter", {"image": {"digest": "1234"}}, "/image/digest"),
        ("admitter", {"image": {"registry": "mirror.example/"}}, "/image/registry"),
        ("admitter", {"global": {"image": {"registry": "mirror.example/"}}}, "/global/image/registry"),
        ("admitter", {"resources": {"request": {"cpu": 1}}}, "'request'"),
        ("admitter", {"affinity": {"nodeAfinity": {}}}, "'nodeAfinity'"),
        ("admitter", {"settings": {"startTimeot": "5m"}}, "'startTimeot'"),
        ("admitter", {"settings": {"startTimeout": "5 minutes"}}, "/settings/startTimeout"),
        ("admitter", {"settings": {"workers": 0}}, "/settings/workers"),
        ("admitter", {"settings": {"fallbackAdmissionPercent": 101}}, "/settings/fallbackAdmissionPercent"),
        ("admitter", {"settings": {"healthPort": 80}}, "'healthPort'"),
        ("admitter", {"settings": {"reserve": 10}}, "'reserve'"),
        ("regulator", {"settings": {"source": "prometeus"}}, "/settings/source"),
        ("regulator", {"settings": {"dryRun": "yes"}}, "/settings/dryRun"),
        ("prioritizer", {"settings": {"drainTaints": "a,b"}}, "/settings/drainTaints"),
        ("base", {"priorityClass": {"create": False}}, "'priorityClass'"),
        ("base", {"guard": {"exemptGroup": ["sre"]}}, "'exemptGroup'"),
        ("base", {"interactive": {"namespaceLabels": {"team": "it's"}}}, "/interactive/namespaceLabels/team"),
        ("base", {"interactive": {"namespaceLabels": {"team'": "a"}}}, "does not match pattern"),
        ("webhook", {"settings": {"allowedTolerations": "gpu"}}, "/settings/allowedTolerations"),
        ("webhook", {"settings": {"maxInterruptionAfter": "a day"}}, "/settings/maxInterruptionAfter"),
        ("webhook", {"authority": {"rotation": "now"}}, "/authority/rotation"),
        ("webhook", {"settings": {"certificates": "authorty"}}, "/settings/certificates"),
        ("crds", {"keeep": True}, "'keeep'"),
        ("scheduler", {"settings": {}}, "'settings'"),
        ("scheduler", {"plugin": {"nonPreemptableWait": "1m"}}, "'nonPreemptableWait'"),
        ("scheduler", {"plugin": {"nonPreemptibleWait": "5 minutes"}}, "/plugin/nonPreemptibleWait"),
        ("scheduler", {"plugin": {"fullWaitFrom": "5 hours"}}, "/plugin/fullWaitFrom"),
        ("scheduler", {"plugin": {"minCandidateNodesPercentage": 101}}, "/plugin/minCandidateNodesPercentage"),
        ("scheduler", {"schedulerName": "My Scheduler"}, "/schedulerName"),
        ("scheduler", {"serviceMonitor": {"interval": "1.5s"}}, "/serviceMonitor/interval"),
        ("scheduler", {"extraArgs": ["v=4"]}, "/extraArgs/0"),
    ],
    ids=lambda value: json.dumps(value) if isinstance(value, dict) else "",
)
def test_typo_is_refused_by_name(helm: Path, name: str, values: dict[str, Any], named: str) -> None:
    assert named in Chart(helm, name).refused(values)


# --- the library ---


@pytest.mark.parametrize("name", USERS_OF_THE_LIBRARY)
def test_a_package_has_the_library_in_it(helm: Path, tmp_path: Path, name: str) -> None:
    chart = Chart(helm, name)
    from_folder = chart.run("template", {}).stdout
    chart.folder = chart.package(tmp_path)

    assert from_folder
    assert chart.run("template", {}).stdout == from_folder


def test_charts_of_two_services_in_one_do_not_mix(helm: Path, tmp_path: Path) -> None:
    both = Chart(helm, "both")
    both.folder = tmp_path
    parts = [{"name": f"scavenger-{name}", "version": "0.1.0"} for name in ("admitter", "regulator", "webhook")]
    about = {"apiVersion": "v2", "name": "both", "version": "0.1.0", "dependencies": parts}
    (tmp_path / "Chart.yaml").write_text(yaml.safe_dump(about))
    (tmp_path / "charts").mkdir()
    alone = {}
    for name in ("admitter", "regulator", "webhook"):
        chart = Chart(helm, name)
        alone[name] = list(chart.objects().values())
        chart.package(tmp_path / "charts")

    values: dict[str, dict[str, Any]] = {f"scavenger-{name}": {"image": {"registry": REGISTRY}} for name in alone}
    values["scavenger-webhook"]["admission"] = {"caBundle": AUTHORITY}
    together = list(both.objects(values).values())
    assert len(together) == sum(map(len, alone.values()))
    assert all(o in together for objects in alone.values() for o in objects)

    once = {"global": {"image": {"registry": REGISTRY}}, "scavenger-webhook": {"admission": {"caBundle": AUTHORITY}}}
    assert list(both.objects(once).values()) == together


# --- services ---


@pytest.mark.parametrize("name", SERVICES)
def test_defaults(helm: Path, name: str) -> None:
    objects = Chart(helm, name).objects()
    deployment = objects["Deployment"]

    assert container(deployment)["image"] == f"{REGISTRY}/scavenger/{name}:0.1.0"
    assert environment(deployment) == {}
    assert deployment["spec"]["template"]["spec"]["serviceAccountName"] == f"scavenger-{name}"
    assert objects["ServiceAccount"]["metadata"]["name"] == f"scavenger-{name}"
    assert "ServiceMonitor" not in objects


@pytest.mark.parametrize("name", SERVICES)
def test_no_trace_of_another_namespace(helm: Path, name: str) -> None:
    objects = Chart(helm, name).objects(namespace="elsewhere")

    assert "scavenger-system" not in json.dumps(objects)
    for subject in objects["ClusterRoleBinding"]["subjects"]:
        assert subject["namespace"] == "elsewhere"


@pytest.mark.parametrize("name", SERVICES)
def test_every_value_lands_where_it_belongs(helm: Path, name: str) -> None:
    objects = Chart(helm, name).objects(EVERYTHING)
    pod = objects["Deployment"]["spec"]["template"]
    main = container(objects["Deployment"])

    assert objects["Deployment"]["spec"]["replicas"] == 3
    assert main["image"] == f"mirror.example/scavenger/{name}:1.2.3"
    assert main["imagePullPolicy"] == "Always"
    assert main["resources"] == EVERYTHING["resources"]
    assert main["volumeMounts"] == EVERYTHING["extraVolumeMounts"]
    assert environment(objects["Deployment"]) == {
        "SCAVENGER_LOG_LEVEL": "debug",
        "SCAVENGER_LEASE_DURATION": "1m",
        "SCAVENGER_SHUTDOWN_TIMEOUT": "50",
        "HTTPS_PROXY": "proxy.example:3128",
    }
    assert "priorityClassName" not in pod["spec"]
    same = ("imagePullSecrets", "nodeSelector", "tolerations", "affinity", "topologySpreadConstraints")
    for key in (*same, "terminationGracePeriodSeconds"):
        assert pod["spec"][key] == EVERYTHING[key]
    assert pod["spec"]["volumes"] == EVERYTHING["extraVolumes"]
    assert pod["metadata"]["annotations"] == EVERYTHING["podAnnotations"]
    assert pod["metadata"]["labels"]["sidecar"] == "no"
    assert objects["PodDisruptionBudget"]["spec"]["maxUnavailable"] == "50%"
    assert objects["ServiceAccount"]["metadata"]["annotations"] == {"cloud.example/role": "reader"}
    assert objects["Service"]["spec"]["ports"][0]["port"] == 9090
    assert objects["ServiceMonitor"]["metadata"]["labels"]["release"] == "prometheus"
    assert objects["ServiceMonitor"]["spec"]["endpoints"][0]["interval"] == "15s"
    assert {o["metadata"]["labels"]["team"] for o in objects.values()} == {"batch"}
    hook = objects["Job"]["spec"]["template"]["spec"]
    for key in ("imagePullSecrets", "nodeSelector", "tolerations"):
        assert hook[key] == EVERYTHING[key]


@pytest.mark.parametrize("name", SERVICES)
def test_digest_instead_of_tag(helm: Path, name: str) -> None:
    digest = f"sha256:{'0' * 64}"
    objects = Chart(helm, name).objects({"image": {"digest": digest, "tag": "ignored"}})

    assert container(objects["Deployment"])["image"] == f"scavenger/{name}@{digest}"


@pytest.mark.parametrize("name", USERS_OF_THE_LIBRARY)
def test_a_name_that_anybody_may_own_is_refused(helm: Path, name: str) -> None:
    chart = Chart(helm, name)
    said = chart.refused({"image": {"tag": "0.1.0"}})

    assert f"image.registry is not set: scavenger/{name} without one is a name on Docker Hub" in said
    assert "--set global.image.registry=" in said
    assert "--set image.registry=" in said
    for image in ({"registry": "localhost"}, {"repository": "registry.example/mine"}, {"digest": f"sha256:{'0' * 64}"}):
        assert container(chart.objects({"image": image})["Deployment"])["image"]


@pytest.mark.parametrize("name", USERS_OF_THE_LIBRARY)
def test_one_registry_for_all_charts_or_one_of_its_own(helm: Path, name: str) -> None:
    def pulled(*, own: str = "", **image: str) -> set[str]:
        """The images of all containers, with a registry for all charts and one of its own."""
        values = {"image": {"registry": own, **image}, "global": {"image": {"registry": "all.example"}, "of": "others"}}
        specs = pod_specs(Chart(helm, name).objects(values)).values()
        return {c["image"] for spec in specs for c in (*spec["containers"], *spec.get("initContainers", ()))}

    assert pulled() == {f"all.example/scavenger/{name}:0.1.0"}
    assert pulled(own="own.example") == {f"own.example/scavenger/{name}:0.1.0"}
    digest = f"sha256:{'0' * 64}"
    assert pulled(digest=digest) == {f"all.example/scavenger/{name}@{digest}"}
    assert pulled(repository="mine/it", tag="2") == {"all.example/mine/it:2"}
    for repository in ("third.example/mine", "third:5000/mine", "localhost/mine"):
        assert pulled(repository=repository, tag="2") == {f"{repository}:2"}


@pytest.mark.parametrize("name", ["crds", "base"])
def test_charts_without_images_take_the_registry_of_all(helm: Path, name: str) -> None:
    chart = Chart(helm, name)
    assert chart.objects({"global": {"image": {"registry": "all.example"}}}) == chart.objects()


@pytest.mark.parametrize(("name", "settings"), SERVICES.items())
def test_every_setting_reaches_the_service(
    helm: Path, monkeypatch: pytest.MonkeyPatch, name: str, settings: type[ServiceSettings]
) -> None:
    schema = json.loads((ROOT / "charts" / f"scavenger-{name}" / "values.schema.json").read_text())
    known = schema["properties"]["settings"]["properties"]
    gone = moved().get(f"scavenger-{name}", {})
    taken = [(key, field["default"]) for key, field in known.items() if f"settings.{key}" not in gone]
    defaults = {key: default for key, default in taken if default is not None}
    for variable, value in environment(Chart(helm, name).objects({"settings": defaults})["Deployment"]).items():
        monkeypatch.setenv(variable, value)
    plain = {field for field in settings.model_fields if field not in GIVEN_BY_THE_CHART}

    read = settings()
    assert {field for field in read.model_fields_set if field not in GIVEN_BY_THE_CHART} == {
        field for field in plain if settings.model_fields[field].default is not None
    }
    assert all(getattr(read, field) == settings.model_fields[field].default for field in plain)


def test_large_numbers_and_lists_as_the_service_reads_them(helm: Path) -> None:
    deployment = Chart(helm, "prioritizer").objects({"settings": {"maxWrites": 2000000, "drainTaints": ["a", "b"]}})

    assert environment(deployment["Deployment"]) == {"SCAVENGER_MAX_WRITES": "2000000", "SCAVENGER_DRAIN_TAINTS": "a,b"}


@pytest.mark.parametrize("name", SERVICES)
def test_without_rbac_and_hook_nothing_else_is_lost(helm: Path, name: str) -> None:
    objects = Chart(helm, name).objects({"rbac": {"create": False}, "uninstall": {"enabled": False}})

    kinds = {o["kind"] for o in objects.values()}
    assert {"Deployment", "Service", "PodDisruptionBudget"} <= kinds
    assert not kinds & {"ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding", "Job"}


@pytest.mark.parametrize("name", SERVICES)
def test_uninstall_runs_before_anything_is_deleted(helm: Path, name: str) -> None:
    job = Chart(helm, name).objects()["Job"]

    assert job["metadata"]["annotations"]["helm.sh/hook"] == "pre-delete"
    pod = job["spec"]["template"]
    assert pod["metadata"]["labels"]["app.kubernetes.io/name"] != f"scavenger-{name}"
    assert pod["spec"]["serviceAccountName"] == f"scavenger-{name}"
    runs_its_own = [container.get("args") for container in pod["spec"]["containers"]] == [["uninstall"]]
    assert runs_its_own == (name in ("admitter", "regulator"))


# --- the scheduler ---

COMMON = {
    key: value
    for key, value in EVERYTHING.items()
    if key not in ("extraEnv", "extraVolumes", "extraVolumeMounts", "settings")
}


def configuration(objects: dict[str, dict[str, Any]]) -> dict[str, Any]:
    return dict(yaml.safe_load(objects["ConfigMap"]["data"]["config.yaml"]))


def test_the_scheduler_is_a_second_one_with_the_plugin_in_the_place_of_default_preemption(helm: Path) -> None:
    objects = Chart(helm, "scheduler").objects()
    found = configuration(objects)
    profile = found["profiles"][0]

    assert found["leaderElection"] == {
        "leaderElect": True,
        "resourceName": "scavenger-scheduler",
        "resourceNamespace": "elsewhere",
    }
    assert profile["schedulerName"] == "scavenger-scheduler"
    assert profile["plugins"] == {
        "multiPoint": {"enabled": [{"name": "ScavengerPreemption"}], "disabled": [{"name": "DefaultPreemption"}]}
    }
    assert container(objects["Deployment"])["image"] == f"{REGISTRY}/scavenger/scheduler:0.1.0"
    assert "scavenger-system" not in json.dumps(objects)
    assert "ServiceMonitor" not in objects


def test_in_place_of_the_cluster_s_own_it_says_the_same_as_the_file_for_a_static_pod(helm: Path) -> None:
    beside = yaml.safe_load((ROOT / "manifests" / "scheduler" / "default" / "config.yaml").read_text())
    chart = Chart(helm, "scheduler")

    assert configuration(chart.objects({"schedulerName": "default-scheduler"}))["profiles"] == beside["profiles"]


def test_a_changed_argument_of_the_plugin_brings_new_pods(helm: Path) -> None:
    chart = Chart(helm, "scheduler")
    objects = [chart.objects({"plugin": {"nonPreemptibleWait": wait}}) for wait in ("5m", "30s")]
    stamps = [o["Deployment"]["spec"]["template"]["metadata"]["annotations"] for o in objects]

    assert stamps[0] == chart.objects()["Deployment"]["spec"]["template"]["metadata"]["annotations"]
    assert stamps[0] != stamps[1]
    args = configuration(objects[1])["profiles"][0]["pluginConfig"][0]["args"]
    assert args == {
        "nonPreemptibleWait": "30s",
        "fullWaitFrom": "0s",
        "minCandidateNodesPercentage": 10,
        "minCandidateNodesAbsolute": 100,
    }


def test_every_value_of_the_scheduler_lands_where_it_belongs(helm: Path) -> None:
    own = {"clientConnection": {"qps": 200, "burst": 400}, "logVerbosity": 4, "extraArgs": ["--profiling=false"]}
    objects = Chart(helm, "scheduler").objects(COMMON | own)
    pod = objects["Deployment"]["spec"]["template"]
    main = container(objects["Deployment"])

    assert objects["Deployment"]["spec"]["replicas"] == 3
    assert main["image"] == "mirror.example/scavenger/scheduler:1.2.3"
    assert main["args"][-2:] == ["--v=4", "--profiling=false"]
    assert main["resources"] == EVERYTHING["resources"]
    assert configuration(objects)["clientConnection"] == {"qps": 200, "burst": 400}
    assert "priorityClassName" not in pod["spec"]
    for key in ("imagePullSecrets", "nodeSelector", "tolerations", "affinity", "topologySpreadConstraints"):
        assert pod["spec"][key] == EVERYTHING[key]
    assert pod["metadata"]["annotations"]["checksum"] == "1"
    assert objects["PodDisruptionBudget"]["spec"]["maxUnavailable"] == "50%"
    assert objects["Service"]["spec"]["ports"][0]["port"] == 9090
    assert objects["ServiceMonitor"]["spec"]["endpoints"][0]["scheme"] == "https"
    assert {o["metadata"]["labels"]["team"] for o in objects.values()} == {"batch"}


def test_the_scheduler_without_rbac_loses_nothing_else(helm: Path) -> None:
    kinds = {o["kind"] for o in Chart(helm, "scheduler").objects({"rbac": {"create": False}}).values()}

    assert kinds == {"ConfigMap", "Deployment", "NetworkPolicy", "PodDisruptionBudget", "Service"}


# --- the webhook's own values ---


def hooks(objects: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Its entries in the webhook configurations by name."""
    found = [o for kind, o in objects.items() if "WebhookConfiguration" in kind]
    return {hook["name"]: hook for configuration in found for hook in configuration["webhooks"]}


def test_a_pod_never_waits_for_the_webhook_and_a_job_does(helm: Path) -> None:
    found = hooks(Chart(helm, "webhook").objects({"admission": {"excludedNamespaces": ["infra"], "quotas": True}}))

    policies = {name: hook["failurePolicy"] for name, hook in found.items()}
    assert policies == {
        "pods.scavenger.dev": "Ignore",
        "resourcequotas.scavenger.dev": "Ignore",
        "scavengerjobs.scavenger.dev": "Fail",
    }
    excluded = found["pods.scavenger.dev"]["namespaceSelector"]["matchExpressions"][0]
    assert (excluded["operator"], excluded["values"]) == ("NotIn", ["kube-system", "elsewhere", "infra"])
    assert {hook["clientConfig"]["service"]["namespace"] for hook in found.values()} == {"elsewhere"}
    assert {hook["sideEffects"] for hook in found.values()} == {"None"}


@pytest.mark.parametrize(
    ("admission", "left"),
    [
        ({"pods": False}, {"scavengerjobs.scavenger.dev"}),
        ({"jobs": False}, {"pods.scavenger.dev"}),
        ({"jobs": False, "pods": False}, set()),
    ],
)
def test_what_is_not_wanted_is_not_asked(helm: Path, admission: dict[str, bool], left: set[str]) -> None:
    assert set(hooks(Chart(helm, "webhook").objects({"admission": admission}))) == left


POLICIES = ("--api-versions", "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy")
"""As helm says it of a cluster of Kubernetes 1.36."""


@pytest.mark.parametrize(
    ("defaulting", "cluster", "by_policy"),
    [
        ("auto", (), False),
        ("auto", POLICIES, True),
        ("policy", (), True),
        ("policy", POLICIES, True),
        ("webhook", (), False),
        ("webhook", POLICIES, False),
    ],
)
def test_pods_are_ranked_by_the_webhook_or_by_a_policy_and_never_by_both(
    helm: Path, defaulting: str, cluster: tuple[str, ...], by_policy: bool
) -> None:
    objects = Chart(helm, "webhook").objects({"pods": {"defaulting": defaulting}}, more=cluster)
    hook = "pods.scavenger.dev" in hooks(objects)

    assert hook != by_policy
    assert ("MutatingAdmissionPolicy" in objects) == ("MutatingAdmissionPolicyBinding" in objects) == by_policy
    assert "scavengerjobs.scavenger.dev" in hooks(objects)
    assert ("MutatingWebhookConfiguration" in objects) == hook, "no call, and no condition, per pod"
    none = Chart(helm, "webhook").objects(
        {"pods": {"defaulting": defaulting}, "admission": {"pods": False}}, more=cluster
    )
    assert not {"MutatingAdmissionPolicy", "MutatingWebhookConfiguration"} & set(none)


@pytest.mark.parametrize("cluster", [(), POLICIES])
def test_nobody_looks_at_pods_where_their_classes_rank_them(helm: Path, cluster: tuple[str, ...]) -> None:
    """What `auto` makes of a real cluster is in tests/integration/webhook/test_pods_class.py."""
    values: dict[str, Any] = {"pods": {"defaulting": "class"}}
    objects = Chart(helm, "webhook").objects(values, more=cluster)

    assert set(hooks(objects)) == {"scavengerjobs.scavenger.dev"}
    assert not {"MutatingAdmissionPolicy", "MutatingWebhookConfiguration"} & set(objects)
    policy, binding = objects["ValidatingAdmissionPolicy"]["spec"], objects["ValidatingAdmissionPolicyBinding"]["spec"]
    assert [rule["resources"] for rule in policy["matchConstraints"]["resourceRules"]] == [["priorityclasses"]]
    assert (policy["failurePolicy"], binding["validationActions"]) == ("Ignore", ["Warn"]), "refuses nothing"
    none = Chart(helm, "webhook").objects({**values, "admission": {"pods": False}}, more=cluster)
    assert not {kind for kind in none if "AdmissionPolicy" in kind}
    quotas = Chart(helm, "webhook").objects({**values, "admission": {"quotas": True}}, more=cluster)
    assert set(hooks(quotas)) == {"resourcequotas.scavenger.dev", "scavengerjobs.scavenger.dev"}


ADOPTING = {"global": {"adopt": {"enabled": True}}}
NEWER = ("--api-versions=admissionregistration.k8s.io/v1/MutatingAdmissionPolicy",)


def adopters(helm: Path, values: dict[str, Any], more: tuple[str, ...] = ()) -> tuple[set[str], set[str]]:
    """The bindings of the policy that adopts Jobs, and the webhooks that do."""
    admitter = Chart(helm, "admitter").objects(values, more=more)
    bindings = {o["metadata"]["name"] for o in admitter.values() if o["kind"] == "MutatingAdmissionPolicyBinding"}
    return bindings, {name for name in hooks(Chart(helm, "webhook").objects(values, more=more)) if ".jobs." in name}


def test_jobs_are_adopted_by_a_policy_or_by_the_webhook_and_by_nobody_by_default(helm: Path) -> None:
    both = {"scavenger-adopt-labelled", "scavenger-adopt-all"}
    assert adopters(helm, {}) == adopters(helm, {}, NEWER) == (set(), set())
    assert adopters(helm, ADOPTING, NEWER) == (both, set())
    assert adopters(helm, ADOPTING) == (set(), {"labelled.jobs.scavenger.dev"})
    cases: tuple[tuple[dict[str, Any], tuple[str, ...]], ...] = (({}, ()), (ADOPTING, NEWER), (ADOPTING, ()))
    admitters = [Chart(helm, "admitter").objects(values, more=more) for values, more in cases]
    said = [environment(objects["Deployment"]).get("SCAVENGER_TELL_UNADOPTED") for objects in admitters]
    assert said == [None, "false", "true"]
    trusted = ADOPTING | {"admission": {"clientCA": "-----BEGIN CERTIFICATE-----", "caBundle": AUTHORITY}}
    found = hooks(Chart(helm, "webhook").objects(trusted))
    policies = {name: hook["failurePolicy"] for name, hook in found.items() if ".jobs." in name}
    assert policies == {"labelled.jobs.scavenger.dev": "Fail", "all.jobs.scavenger.dev": "Ignore"}


@pytest.mark.parametrize("chart", ["prioritizer", "regulator"])
def test_who_ranks_running_jobs_reads_adopted_ones_only_where_jobs_are_adopted(helm: Path, chart: str) -> None:
    def may(objects: dict[str, dict[str, Any]]) -> list[Any]:
        return [rule["verbs"] for rule in objects["ClusterRole"]["rules"] if rule["resources"] == ["jobs"]]

    off, on = Chart(helm, chart).objects(), Chart(helm, chart).objects(ADOPTING)
    assert (may(off), environment(off["Deployment"]).get("SCAVENGER_ADOPT")) == ([], None)
    assert (may(on), environment(on["Deployment"])["SCAVENGER_ADOPT"]) == ([["list", "watch"]], "true")


def test_a_release_from_before_there_were_adopted_jobs_has_none(helm: Path) -> None:
    """`--reuse-values` hands over values without the new ones."""
    for chart in ("base", "admitter", "webhook", "prioritizer", "regulator"):
        assert Chart(helm, chart).objects({"global": {"adopt": None}})


def test_where_jobs_are_adopted_everywhere_a_namespace_can_opt_out(helm: Path) -> None:
    values = {"global": {"adopt": {"enabled": True, "everywhere": True}}}
    admitter = Chart(helm, "admitter").objects(values, more=NEWER)
    selectors = {
        o["metadata"]["name"]: o["spec"]["matchResources"]["namespaceSelector"]["matchExpressions"][1]
        for o in admitter.values()
        if o["kind"] == "MutatingAdmissionPolicyBinding"
    }
    assert selectors == {
        "scavenger-adopt-labelled": {"key": "scavenger.dev/adopt", "operator": "NotIn", "values": ["never"]},
        "scavenger-adopt-all": {"key": "scavenger.dev/adopt", "operator": "In", "values": ["all"]},
    }
    policies = [o for o in Chart(helm, "base").objects(values).values() if o["kind"] == "ValidatingAdmissionPolicy"]
    (policy,) = [o for o in policies if o["metadata"]["name"] == "scavenger-guard-adopted-jobs"]
    (expression,) = [one["expression"] for one in policy["spec"]["variables"] if one["name"] == "served"]
    assert expression.endswith("!= 'never'")
    assert "'elsewhere'" in expression, "the namespace of the release is never served"


def test_adopted_jobs_are_released_before_the_admitter_is_stopped(helm: Path) -> None:
    """By an account that is not the admitter's, and is there only meanwhile."""
    objects = Chart(helm, "admitter").objects(ADOPTING).values()
    made = {o["kind"]: o for o in objects if o["metadata"]["name"] == "scavenger-admitter-release"}
    assert made.keys() == {"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Job"}
    notes = {kind: o["metadata"]["annotations"] for kind, o in made.items()}
    assert {one["helm.sh/hook"] for one in notes.values()} == {"pre-delete"}
    weights = {kind: int(one["helm.sh/hook-weight"]) for kind, one in notes.items()}
    assert weights["ServiceAccount"] < weights["ClusterRoleBinding"] < weights["Job"]
    (stops,) = [o for o in objects if o["metadata"]["name"] == "scavenger-admitter-uninstall" and o["kind"] == "Job"]
    assert weights["Job"] < int(stops["metadata"]["annotations"]["helm.sh/hook-weight"])
    pod = made["Job"]["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == "scavenger-admitter-release"
    assert pod["containers"][0]["args"] == ["release", "120", "--namespace=elsewhere"]
    assert not [o for o in Chart(helm, "admitter").objects().values() if o["metadata"]["name"].endswith("-release")]


def test_the_scope_of_quotas_is_taken_back_where_it_is_added(helm: Path) -> None:
    for quotas in (False, True):
        objects = Chart(helm, "webhook").objects({"admission": {"quotas": quotas}})
        (clean,) = objects["Job"]["spec"]["template"]["spec"]["containers"]
        assert (clean.get("args") == ["uninstall"]) == quotas
        rules = [rule for rule in objects["ClusterRole"]["rules"] if rule["resources"] == ["resourcequotas"]]
        assert [rule["verbs"] for rule in rules] == ([["list", "patch"]] if quotas else [])


def test_quotas_are_sent_where_pods_are_not(helm: Path) -> None:
    values = {"pods": {"defaulting": "policy"}, "admission": {"quotas": True, "excludedNamespaces": ["infra"]}}
    objects = Chart(helm, "webhook").objects(values)

    assert set(hooks(objects)) == {"resourcequotas.scavenger.dev", "scavengerjobs.scavenger.dev"}
    selector = objects["MutatingAdmissionPolicy"]["spec"]["matchConstraints"]["namespaceSelector"]
    assert selector == hooks(objects)["resourcequotas.scavenger.dev"]["namespaceSelector"]
    assert selector["matchExpressions"][0]["values"] == ["kube-system", "elsewhere", "infra"]


@pytest.mark.parametrize("rule", ["raise", "warn"])
def test_the_policy_for_pods_goes_by_the_settings_of_the_webhook(helm: Path, rule: str) -> None:
    settings = {"lowPriority": rule, "ordinaryClass": "standard"}
    objects = Chart(helm, "webhook").objects({"pods": {"defaulting": "policy"}, "settings": settings})
    named = {(o["kind"], o["metadata"]["name"]): o["spec"] for o in objects.values() if "spec" in o}
    policy = named["ValidatingAdmissionPolicy", "scavenger-pods-warning"]

    assert objects["MutatingAdmissionPolicyBinding"]["spec"]["paramRef"] == {
        "name": "standard",
        "parameterNotFoundAction": "Allow",
    }
    assert ("priority <= -1000" in json.dumps(objects["MutatingAdmissionPolicy"])) == (rule == "raise")
    binding = named["ValidatingAdmissionPolicyBinding", "scavenger-pods-warning"]
    assert binding["validationActions"] == ["Warn"], "refuses nothing"
    assert {objects["MutatingAdmissionPolicy"]["spec"]["failurePolicy"], policy["failurePolicy"]} == {"Ignore"}
    assert ("objectSelector" in policy["matchConstraints"]) == (rule == "raise"), "asked about raised pods only"


def test_service_and_port_agree_with_the_settings(helm: Path) -> None:
    objects = Chart(helm, "webhook").objects({"settings": {"service": "other", "port": 8443}})

    assert {hook["clientConfig"]["service"]["name"] for hook in hooks(objects).values()} == {"other"}
    service = next(o for o in objects.values() if o["kind"] == "Service" and o["metadata"]["name"] == "other")
    assert service["spec"]["ports"] == [{"name": "https", "port": 443, "targetPort": 8443}]


def test_cert_manager_instead_of_an_authority_of_its_own(helm: Path) -> None:
    objects = Chart(helm, "webhook").objects(
        {"settings": {"certificates": "mounted"}, "certManager": {"issuerRef": {"name": "internal", "kind": "Issuer"}}}
    )

    assert "Secret" not in objects
    assert '"secrets"' not in json.dumps(objects)
    assert objects["Certificate"]["spec"]["dnsNames"][0] == "scavenger-webhook-admission.elsewhere.svc"
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        annotations = objects[kind]["metadata"]["annotations"]
        assert annotations == {"cert-manager.io/inject-ca-from": "elsewhere/scavenger-webhook"}
    assert container(objects["Deployment"])["volumeMounts"] == [
        {"name": "tls", "mountPath": "/etc/scavenger/tls", "readOnly": True}
    ]
    assert "admissionregistration" not in json.dumps(objects["ClusterRole"])


# --- who makes the webhook's certificates ---


def test_by_default_the_webhook_has_no_right_to_webhook_configurations(helm: Path) -> None:
    objects = Chart(helm, "webhook").objects()

    assert "admissionregistration" not in json.dumps(objects["ClusterRole"])
    secrets = {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["scavenger-webhook-authority"]}
    assert objects["Role"]["rules"] == [secrets | {"verbs": ["list", "watch"]}]
    assert {hook["clientConfig"]["caBundle"] for hook in hooks(objects).values()} == {AUTHORITY}
    assert "Secret" not in objects, "the administrator's, who has given its certificate"


def test_without_a_cluster_no_authority_is_made_and_the_refusal_says_what_to_do(helm: Path) -> None:
    said = Chart(helm, "webhook").refused({"admission": {"caBundle": ""}})

    for remedy in ("--dry-run=server", "admission.caBundle", "certificates=mounted"):
        assert remedy in said


def test_who_mounts_certificates_needs_no_cluster_to_render(helm: Path) -> None:
    objects = Chart(helm, "webhook").objects({"settings": {"certificates": "mounted"}, "admission": {"caBundle": ""}})

    assert "caBundle" not in json.dumps(hooks(objects))


def test_the_admitter_may_create_secrets_only_where_there_are_snapshots(helm: Path) -> None:
    """The policy scavenger-guard-keys says which ones."""
    rules = Chart(helm, "admitter").objects({"settings": {"snapshotImage": "snapshot:1"}})["ClusterRole"]["rules"]
    assert [rule["verbs"] for rule in rules if "secrets" in rule["resources"]] == [["create"]]
    assert '"secrets"' not in json.dumps(Chart(helm, "admitter").objects())


# --- definitions, classes, roles ---


def test_the_authority_of_client_certificates_is_mounted_and_another_starts_pods_again(helm: Path) -> None:
    def mounted(authority: str) -> str:
        objects = Chart(helm, "webhook").objects({"admission": {"clientCA": authority}})
        deployment = objects["Deployment"]
        found = environment(deployment)["SCAVENGER_CLIENT_AUTHORITY"]
        [mount] = [one for one in container(deployment)["volumeMounts"] if found == f"{one['mountPath']}/ca.crt"]
        [volume] = [v for v in deployment["spec"]["template"]["spec"]["volumes"] if v["name"] == mount["name"]]
        name = str(volume["configMap"]["name"])
        [made] = [one for one in objects.values() if one["kind"] == "ConfigMap" and one["metadata"]["name"] == name]
        assert made["data"] == {"ca.crt": authority}
        return name

    begin, end = "-----BEGIN CERTIFICATE-----\n", "\n-----END CERTIFICATE-----\n"
    assert mounted(f"{begin}one{end}") != mounted(f"{begin}other{end}")
    webhook = Chart(helm, "webhook")
    assert "clientCA" in webhook.refused({"admission": {"clientCA": "/a/file"}})
    twice = {"admission": {"clientCA": f"{begin}one{end}"}, "settings": {"clientAuthority": "/a/file"}}
    assert "admission.clientCA, or settings.clientAuthority" in webhook.refused(twice)


@pytest.mark.parametrize("keep", [True, False])
def test_definitions_are_those_of_the_contract(helm: Path, keep: bool) -> None:
    values = {"keep": keep, "labels": {"team": "batch"}, "annotations": {"a": "b"}}
    objects = Chart(helm, "crds").objects(values).values()

    assert len(objects) == 2
    for definition in objects:
        metadata = definition["metadata"]
        plural, _, group = metadata["name"].partition(".")
        wanted = yaml.safe_load((ROOT / "manifests" / "crds" / f"{plural}_{group}.yaml").read_text())
        assert definition["spec"] == wanted["spec"]
        assert metadata["labels"] == wanted["metadata"]["labels"] | {"team": "batch"}
        assert metadata["annotations"] == {"a": "b"} | ({"helm.sh/resource-policy": "keep"} if keep else {})


def test_a_default_class_of_the_cluster_is_left_alone(helm: Path) -> None:
    others: dict[str, Any] = {"userRoles": {"create": False}, "defaultQueue": {"create": False}}
    others |= {"flowControl": {"enabled": False}, "guard": {"enabled": False}}
    values = {"priorityClasses": {"ordinaryIsGlobalDefault": False}, **others}
    objects = Chart(helm, "base").objects(values).values()

    assert {o["kind"] for o in objects} == {"PriorityClass", "ConfigMap"}
    assert not any(o["globalDefault"] for o in objects if o["kind"] == "PriorityClass")


def test_the_base_alone_has_the_settings_of_all_components(helm: Path) -> None:
    made = [
        (chart.name, document["metadata"]["name"])
        for chart in CHARTS
        for document in Chart(helm, chart.name.removeprefix("scavenger-")).objects().values()
        if document["kind"] == "ConfigMap" and document["metadata"]["name"] == SETTINGS_CONFIGMAP
    ]
    assert made == [("scavenger-base", SETTINGS_CONFIGMAP)]


def test_the_settings_of_all_components_are_the_defaults_until_they_are_set(helm: Path) -> None:
    base = Chart(helm, "base")
    data = base.objects()["ConfigMap"]["data"]
    assert SharedSettings().read(data) == (SharedSettings(), {})
    assert data.keys() == FIELDS.keys()

    values: dict[str, Any] = {"startupCostSeconds": 0.5, "trustedIntervalSeconds": 604800, "startOverWindowSeconds": 0}
    values |= {"minimumRun": True, "resourceWeights": {"amd.com/gpu": 2.5}}
    found, problems = SharedSettings().read(base.objects(values)["ConfigMap"]["data"])
    weights = weights_of("amd.com/gpu=2.5")
    assert (found, problems) == (SharedSettings(0.5, 604800, 0, minimum_run=True, resource_weights=weights), {})

    reused = base.objects(dict.fromkeys([*FIELDS][:4]))["ConfigMap"]["data"]
    assert reused.keys() == {SETTING_RESOURCE_WEIGHTS}, "values of an older release have no such keys"
    assert "startupCostSeconds" in base.refused({"startupCostSeconds": -1})


def test_who_reads_the_settings_may_read_that_one_configmap(helm: Path) -> None:
    may = {"get", "list", "watch"}
    for name in USERS_OF_THE_LIBRARY:
        rules = [
            rule
            for document in Chart(helm, name).objects().values()
            if document["kind"] == "Role" and "uninstall" not in document["metadata"]["name"]
            for rule in document["rules"]
            if SETTINGS_CONFIGMAP in rule.get("resourceNames", ())
        ]
        reads = name in ("admitter", "regulator", "prioritizer", "scheduler")
        assert [set(rule["verbs"]) for rule in rules] == [may] * reads, name


def test_settings_that_have_moved_are_still_taken_and_the_notes_say_where_to(helm: Path) -> None:
    for service, settings in SERVICES.items():
        moved = [camel(name) for name, field in settings.model_fields.items() if is_deprecated(field)]
        values = {
            name: True if name == "minimumRun" else "cpu=2" if name == "resourceWeights" else "90s" for name in moved
        }
        taken = environment(Chart(helm, service).objects({"settings": values})["Deployment"])
        assert {
            f"SCAVENGER_{name}".upper() for name, field in settings.model_fields.items() if is_deprecated(field)
        } <= taken.keys()
        done = Chart(helm, service).run("install", {"settings": values}, "--generate-name", "--dry-run=client")
        assert done.returncode == 0, done.stderr
        notes = done.stdout.partition("NOTES:")[2]
        for field in FIELDS.values():
            name = camel(flag_field(field))
            told = f"settings.{name} of scavenger-{service} is deprecated"
            assert (told in notes) == (name in moved), name
            assert name not in moved or f"{key_of(field)} of scavenger-base" in notes
        assert "deprecated" not in Chart(helm, service).folder.joinpath("values.yaml").read_text()


def _dashboards(objects: Mapping[str, Any]) -> list[Any]:
    """The ConfigMaps with a dashboard."""
    return [o for o in objects.values() if o["kind"] == "ConfigMap" and o["metadata"]["name"] != SETTINGS_CONFIGMAP]


def test_dashboards_are_there_when_asked_for_as_the_sidecar_of_grafana_looks_for_them(helm: Path) -> None:
    assert not _dashboards(Chart(helm, "base").objects())
    found = _dashboards(Chart(helm, "base").objects({"dashboards": {"enabled": True}}, namespace="scavenger-system"))

    assert {o["metadata"]["labels"]["grafana_dashboard"] for o in found} == {"1"}
    assert {o["metadata"]["namespace"] for o in found} == {"scavenger-system"}
    files = {name: json.loads(text) for o in found for name, text in o["data"].items()}
    assert sorted(files) == ["scavenger-administrator.json", "scavenger-researcher.json", "scavenger-services.json"]
    for name, board in files.items():
        written = ROOT / "charts/scavenger-base/files/dashboards" / name.removeprefix("scavenger-")
        assert board == json.loads(written.read_text())
    assert all(len(json.dumps(o)) < 2**18 for o in found), "helm's own record of a release holds 1 MiB"


def test_dashboards_go_where_the_sidecar_looks(helm: Path) -> None:
    values = {"namespace": "monitoring", "labels": {"grafana_dashboard": None, "dash": "yes"}}
    values["annotations"] = {"grafana_folder": "Batch"}
    objects = Chart(helm, "base").objects({"dashboards": {"enabled": True, **values}, "labels": {"team": "a"}})
    for board in _dashboards(objects):
        assert board["metadata"]["namespace"] == "monitoring"
        assert board["metadata"]["annotations"] == {"grafana_folder": "Batch"}
        labels = {"app.kubernetes.io/part-of": "scavenger-jobs", "team": "a", "dash": "yes"}
        assert board["metadata"]["labels"] == labels


def test_kube_state_metrics_gets_a_file_and_the_right_to_list_when_asked_for(helm: Path) -> None:
    others = {"userRoles": {"create": False}}
    assert not {"ClusterRole", "ClusterRoleBinding"} & Chart(helm, "base").objects(others).keys()
    values = {**others, "stateMetrics": {"enabled": True, "namespace": "monitoring", "serviceAccount": "ksm"}}
    objects = Chart(helm, "base").objects(values, namespace="scavenger-system")

    (made,) = _dashboards(objects)
    assert made["metadata"]["namespace"] == "monitoring"
    written = ROOT / "charts/scavenger-base/files/state-metrics/scavenger.yaml"
    assert yaml.safe_load(made["data"]["scavenger.yaml"]) == yaml.safe_load(written.read_text())
    rules = objects["ClusterRole"]["rules"]
    assert {(name, *rule["verbs"]) for rule in rules for name in rule["resources"]} == {
        ("scavengerjobs", "list", "watch"),
        ("customresourcedefinitions", "list", "watch"),
    }
    binding = objects["ClusterRoleBinding"]
    assert binding["roleRef"]["name"] == objects["ClusterRole"]["metadata"]["name"]
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "ksm", "namespace": "monitoring"}]
    here = {"enabled": True, "namespace": "", "serviceAccount": ""}
    objects = Chart(helm, "base").objects({**others, "stateMetrics": here}, namespace="scavenger-system")
    assert _dashboards(objects)[0]["metadata"]["namespace"] == "scavenger-system"
    assert "ClusterRoleBinding" not in objects


def test_alerts_are_there_when_asked_for_and_link_to_where_the_runbooks_are(helm: Path) -> None:
    assert "PrometheusRule" not in Chart(helm, "base").objects()
    written = yaml.safe_load((ROOT / "charts/scavenger-base/files/rules/scavenger.rules.yaml").read_text())
    made = Chart(helm, "base").objects({"rules": {"enabled": True}}, namespace="scavenger-system")["PrometheusRule"]
    assert made["spec"] == written
    assert made["metadata"]["namespace"] == "scavenger-system"
    values = {"namespace": "monitoring", "labels": {"release": "stack"}, "runbooks": "https://wiki.example/runbooks"}
    made = Chart(helm, "base").objects({"rules": {"enabled": True, **values}})["PrometheusRule"]
    assert made["metadata"]["namespace"] == "monitoring"
    assert made["metadata"]["labels"]["release"] == "stack"
    links = [rule["annotations"]["runbook_url"] for group in made["spec"]["groups"] for rule in group["rules"]]
    assert all(link.startswith("https://wiki.example/runbooks#scavenger") for link in links)


def test_roles_that_are_not_aggregated(helm: Path) -> None:
    others: dict[str, Any] = {"priorityClasses": {"create": False}, "defaultQueue": {"create": False}}
    others |= {"flowControl": {"enabled": False}, "guard": {"enabled": False}}
    objects = Chart(helm, "base").objects({"userRoles": {"aggregate": False}, **others})

    assert len(objects) == 3 + 2 + 1  # roles, one of them bound, and the settings
    assert "aggregate-to" not in json.dumps(objects)


def test_the_default_queue_is_kept_and_its_weight_is_not_ours(helm: Path) -> None:
    queue = Chart(helm, "base").objects()["ScavengerQueue"]

    assert queue["metadata"]["name"] == "default"
    assert queue["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    assert "spec" not in queue, "helm would take it back to its own at every upgrade"


# --- the guard ---

Rules = dict[str, Any]


def guard(helm: Path, values: Rules | None = None) -> dict[str, Rules]:
    """The spec of each policy by its name, without what all begin with that refuse something."""
    objects = Chart(helm, "base").objects({"guard": values or {}})
    found = {o["metadata"]["name"]: o["spec"] for o in objects.values() if o["kind"] == "ValidatingAdmissionPolicy"}
    prefix = "scavenger-guard-"
    return {name.removeprefix(prefix): spec for name, spec in found.items() if name.startswith(prefix)}


ABOUT_SERVICES_ONLY = {
    "workload-boosts",
    "queues",
    "services",
    "releases",
    "keys",
    "budgets",
    "labelled-evictions",
    "evicted-pods",
}
"""Policies that narrow what a service may do: nobody else is asked."""


def test_the_guard_and_whom_it_leaves_alone(helm: Path) -> None:
    assert not guard(helm, {"enabled": False})
    policies = guard(helm, {"exemptGroups": ["system:masters", "sre"]})
    assert len(policies) >= 10
    services = ", ".join(
        f"'system:serviceaccount:elsewhere:scavenger-{n}'" for n in ("admitter", "prioritizer", "regulator")
    )
    groups = "!request.userInfo.groups.exists(g, g in ['system:masters', 'sre'])"
    for name, policy in policies.items():
        conditions = {c["name"]: c["expression"] for c in policy.get("matchConditions", ())}
        exempt = None if name in ABOUT_SERVICES_ONLY else f"request.userInfo.username in [{services}] || {groups}"
        assert conditions.get("not-exempt") == exempt, name
        assert policy["failurePolicy"] == "Fail"


def test_every_policy_of_the_guard_is_in_force_under_any_values(helm: Path) -> None:
    objects = Chart(helm, "base").objects({"userRoles": {"create": False}, "flowControl": {"enabled": False}})
    bound = [o["spec"] for o in objects.values() if o["kind"] == "ValidatingAdmissionPolicyBinding"]

    warn = {"scavenger-guard-accounts": ["Warn"], "scavenger-adopted-later": ["Warn"]}
    assert {spec["policyName"] for spec in bound} == {f"scavenger-guard-{name}" for name in guard(helm)} | set(warn)
    assert all(spec["validationActions"] == warn.get(spec["policyName"], ["Deny"]) for spec in bound)
    assert "scavenger-system" not in json.dumps([o for o in objects.values() if "Policy" in o["kind"]])


@pytest.mark.parametrize("name", [*SERVICES, "scheduler"])
def test_our_own_pods_carry_no_mark_of_scavenger_jobs(helm: Path, name: str) -> None:
    """The guard would refuse them."""
    for made in Chart(helm, name).objects().values():
        template = made.get("spec", {}).get("template", {}).get("metadata", {})
        keys = [key for kind in ("labels", "annotations") for key in template.get(kind, {})]
        assert not [key for key in keys if key.startswith("scavenger.dev/")]


@pytest.mark.parametrize("name", SERVICES)
def test_no_protection_depends_on_the_chart_of_a_service(helm: Path, name: str) -> None:
    for values in ({}, {"rbac": {"create": False}}):
        objects = Chart(helm, name).objects(values)
        assert not [o for o in objects.values() if o["kind"] == "ValidatingAdmissionPolicy"]


def test_the_policy_on_nodes_comes_with_the_feature_whoever_makes_the_roles(helm: Path) -> None:
    for create in (True, False):
        values = {"rbac": {"create": create}, "reclaimed": {"enabled": True}}
        kinds = [o["kind"] for o in Chart(helm, "regulator").objects(values).values()]
        assert kinds.count("ValidatingAdmissionPolicy") == kinds.count("ValidatingAdmissionPolicyBinding") == 1


def selected(selector: Rules, labels: dict[str, str]) -> bool:
    """Whether labels match a selector of matchExpressions with Exists and DoesNotExist."""
    expressions = selector.get("matchExpressions", ())
    return all((e["key"] in labels) == (e["operator"] == "Exists") for e in expressions)


def matched(helm: Path, operation: str, resource: str, labels: dict[str, str]) -> set[str]:
    """The policies that the API server evaluates for a write of a pod with these labels, whoever writes."""
    objects = Chart(helm, "base").objects()
    policies = {o["metadata"]["name"]: o["spec"] for o in objects.values() if o["kind"] == "ValidatingAdmissionPolicy"}
    found = set()
    for binding in (o["spec"] for o in objects.values() if o["kind"] == "ValidatingAdmissionPolicyBinding"):
        name = binding["policyName"].removeprefix("scavenger-guard-")
        constraints = policies[binding["policyName"]]["matchConstraints"]
        rules = [rule for rule in constraints["resourceRules"] if operation in rule["operations"]]
        if not any("" in rule["apiGroups"] and resource in rule["resources"] for rule in rules):
            continue
        narrowed = binding.get("matchResources", {})
        if all(selected(one.get("objectSelector", {}), labels) for one in (constraints, narrowed)):
            found.add(name)
    return found


OURS = {"scavenger.dev/job": "j", "scavenger.dev/preemption-class": "preemptible"}


@pytest.mark.parametrize(
    ("operation", "resource", "ordinary", "scavenger"),
    [
        ("CREATE", "pods", {"ordinary-pods"}, {"job-pods"}),
        ("UPDATE", "pods", {"ordinary-pods"}, {"job-pods"}),
        ("UPDATE", "pods/resize", {"ordinary-pods"}, {"job-pods"}),
        ("UPDATE", "pods/status", set(), {"pod-status"}),
        ("CREATE", "pods/binding", set(), set()),
        ("DELETE", "pods", {"pod-deletion"}, {"pod-deletion"}),
        # The labels are those of the Eviction. A policy that has every pod for a parameter is not for everybody's.
        ("CREATE", "pods/eviction", {"evictions", "labelled-evictions"}, {"evictions", "labelled-evictions"}),
    ],
)
def test_what_a_write_of_a_pod_costs_the_api_server(
    helm: Path, operation: str, resource: str, ordinary: set[str], scavenger: set[str]
) -> None:
    """Each policy that matches converts the pod anew: none for the status of an ordinary pod, one at most else."""
    assert matched(helm, operation, resource, {"app": "web"}) == ordinary
    assert matched(helm, operation, resource, OURS) == scavenger


def test_on_ordinary_pods_no_policy_gets_beyond_its_conditions(helm: Path) -> None:
    """Conditions cost one conversion of the pod, validations three more."""
    policies = guard(helm)
    assert all(policies[name]["matchConditions"] for name in matched(helm, "CREATE", "pods", {}))
    assert all(policies[name]["matchConditions"] for name in matched(helm, "DELETE", "pods", {}))


def test_classes_that_may_be_low_are_named(helm: Path) -> None:
    ours = "'scavenger-preemptible', 'scavenger-non-preemptible'"
    for values, names in (({}, f"[{ours}]"), ({"lowPriorityClasses": ["cheap", "a.b"]}, f"[{ours}, 'cheap', 'a.b']")):
        policy = guard(helm, values)["priority-classes"]
        assert policy["matchConditions"][0]["expression"].endswith(f"object.metadata.name in {names})")


def test_values_of_a_release_from_before_there_were_names_will_do(helm: Path) -> None:
    """`helm upgrade --reuse-values` has the values of the old chart, and nothing of what the new one adds."""
    assert Chart(helm, "base").objects({"guard": {"lowPriorityClasses": None}}) == Chart(helm, "base").objects()


def test_pods_are_interactive_where_the_namespace_allows_it(helm: Path) -> None:
    def found(values: Rules) -> Rules:
        objects = Chart(helm, "base").objects({"interactive": values}).values()
        return next(o["spec"] for o in objects if o["metadata"]["name"] == "scavenger-guard-ordinary-pods")

    for values, labels in (
        ({}, {"scavenger.dev/interactive": "allowed"}),
        (
            {"namespaceLabels": {"team": "blue", "example.com/tier": "front"}},
            {"team": "blue", "example.com/tier": "front"},
        ),
    ):
        rule = found(values)["validations"][-1]
        for key, value in labels.items():
            assert f"namespaceObject.metadata.labels['{key}'] == '{value}'" in rule["expression"]
            assert f"{key}={value}" in rule["message"]
    assert "latency'].orValue" not in json.dumps(found({"everybody": True}))


# --- flow control ---


def flow_schemas(objects: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """In the order in which the API server tries them."""
    found = [o for o in objects.values() if o["kind"] == "FlowSchema"]
    return sorted(found, key=lambda schema: schema["spec"]["matchingPrecedence"])


def level_of(schemas: list[dict[str, Any]], account: str, verb: str, group: str, resource: str, namespace: str) -> str:
    """The priority level of a request; empty where none of these matches it."""

    def fits(rule: dict[str, Any]) -> bool:
        return (
            verb in rule["verbs"]
            and bool({group, "*"} & set(rule["apiGroups"]))
            and bool({resource, "*"} & set(rule["resources"]))
            and bool({namespace, "*"} & set(rule.get("namespaces", [])))
        )

    for schema in schemas:
        for rule in schema["spec"]["rules"]:
            accounts = {(s["serviceAccount"]["namespace"], s["serviceAccount"]["name"]) for s in rule["subjects"]}
            if ("elsewhere", f"scavenger-{account}") in accounts and any(map(fits, rule["resourceRules"])):
                return str(schema["spec"]["priorityLevelConfiguration"]["name"])
    return ""


def test_bulk_writes_have_few_places_borrow_none_and_wait_for_them(helm: Path) -> None:
    objects = Chart(helm, "base").objects({"flowControl": {"concurrencyShares": 7}, "labels": {"team": "batch"}})
    limited = objects["PriorityLevelConfiguration"]["spec"]["limited"]

    assert (limited["nominalConcurrencyShares"], limited["borrowingLimitPercent"]) == (7, 0)
    assert limited["limitResponse"]["type"] == "Queue"
    queuing = limited["limitResponse"]["queuing"]
    assert queuing["handSize"] * queuing["queueLengthLimit"] >= 64, "as many as a client has under way"
    flow = [o for o in objects.values() if o["apiVersion"] == "flowcontrol.apiserver.k8s.io/v1"]
    assert len(flow) == 4
    assert {o["metadata"]["labels"]["team"] for o in flow} == {"batch"}


@pytest.mark.parametrize(
    ("account", "verb", "group", "resource", "namespace", "level"),
    [
        ("admitter", "patch", "scavenger.dev", "scavengerjobs/status", "lab", "scavenger-writes"),
        ("admitter", "create", "batch", "jobs", "lab", "scavenger-writes"),
        ("prioritizer", "patch", "", "pods", "lab", "scavenger-writes"),
        ("regulator", "create", "", "events", "lab", "scavenger-writes"),
        ("regulator", "create", "", "pods/eviction", "lab", "workload-high"),
        ("regulator", "delete", "", "pods", "lab", "workload-high"),
        ("regulator", "patch", "", "configmaps", "elsewhere", "workload-high"),
        ("admitter", "create", "", "pods/eviction", "lab", "scavenger-writes"),
        *(
            (account, "update", "coordination.k8s.io", "leases", "elsewhere", "leader-election")
            for account in ("admitter", "regulator", "prioritizer", "scheduler")
        ),
        ("admitter", "update", "coordination.k8s.io", "leases", "lab", "scavenger-writes"),
        ("scheduler", "create", "", "pods/binding", "lab", ""),
        ("webhook", "update", "", "secrets", "elsewhere", ""),
        *(("admitter", verb, "", "pods", "lab", "") for verb in ("get", "list", "watch")),
    ],
)
def test_where_a_request_waits(
    helm: Path, account: str, verb: str, group: str, resource: str, namespace: str, level: str
) -> None:
    schemas = flow_schemas(Chart(helm, "base").objects())

    assert level_of(schemas, account, verb, group, resource, namespace) == level


def test_flow_control_comes_before_the_cluster_s_own_for_service_accounts_and_can_be_left_out(helm: Path) -> None:
    assert all(s["spec"]["matchingPrecedence"] < 900 for s in flow_schemas(Chart(helm, "base").objects()))
    kinds = {o["kind"] for o in Chart(helm, "base").objects({"flowControl": {"enabled": False}}).values()}
    assert not kinds & {"FlowSchema", "PriorityLevelConfiguration"}


# --- what runs before a service is removed ---


class Api:
    """Answers as the API server would, for as much as pre_delete.py asks."""

    def __init__(self, answers: dict[str, list[Any]]) -> None:
        self.answers = answers
        self.asked: list[str] = []

    def __call__(self, method: str, path: str, body: Any = None) -> Any:
        self.asked.append(f"{method} {path}" + (f" {json.dumps(body)}" if body else ""))
        left = self.answers.get(f"{method} {path}", [{}])
        return left.pop(0) if len(left) > 1 else left[0]


@pytest.fixture
def program() -> dict[str, Any]:
    return runpy.run_path(str(LIBRARY / "files" / "pre_delete.py"))


def test_pre_delete_waits_for_the_last_pod(program: dict[str, Any]) -> None:
    def pods(*phases: str) -> dict[str, Any]:
        return {"items": [{"metadata": {"name": f"p{n}"}, "status": {"phase": p}} for n, p in enumerate(phases)]}

    path = "GET /api/v1/namespaces/ns/pods?labelSelector=app.kubernetes.io/name=scavenger-admitter"
    api = Api({path: [pods("Running", "Running"), pods("Running", "Failed"), pods("Succeeded")]})
    waits: list[float] = []
    program["stop"]("ns", "scavenger-admitter", request=api, sleep=waits.append)

    assert api.asked[0].startswith("PATCH /apis/apps/v1/namespaces/ns/deployments/scavenger-admitter/scale")
    assert api.asked[0].endswith('{"spec": {"replicas": 0}}')
    assert len(waits) == 2


def test_pre_delete_deletes_by_name_in_all_namespaces(program: dict[str, Any]) -> None:
    found = {"items": [{"metadata": {"namespace": "a"}}, {"metadata": {"namespace": "b"}}]}
    query = "fieldSelector=metadata.name=x&labelSelector=app.kubernetes.io/managed-by=scavenger-prioritizer"
    api = Api({f"GET /apis/policy/v1/poddisruptionbudgets?{query}": [found]})
    program["delete"]("scavenger-prioritizer", "/apis/policy/v1/poddisruptionbudgets", "x", request=api)

    assert api.asked[1:] == [
        f"DELETE /apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets/x" for namespace in "ab"
    ]


def test_pre_delete_deletes_what_is_there_in_one_namespace(program: dict[str, Any]) -> None:
    gone = "DELETE /api/v1/namespaces/ns/configmaps/b"
    api = Api({gone: [None]})
    program["delete"]("scavenger-regulator", "/api/v1/namespaces/ns/configmaps", "a", "b", request=api)

    assert api.asked == ["DELETE /api/v1/namespaces/ns/configmaps/a", gone]


def test_pre_delete_takes_resources_off_the_nodes_that_show_them(program: dict[str, Any]) -> None:
    def node(name: str, **capacity: str) -> dict[str, Any]:
        return {"metadata": {"name": name}, "status": {"capacity": {"cpu": "8", **capacity}}}

    pages: dict[str, list[Any]] = {
        "GET /api/v1/nodes?limit=200&continue=": [
            {"metadata": {"continue": "next"}, "items": [node("a", x="1"), node("b"), {"metadata": {"name": "new"}}]}
        ],
        "GET /api/v1/nodes?limit=200&continue=next": [{"metadata": {}, "items": [node("c", y="0")]}],
    }
    api = Api(pages)
    program["withdraw"]("x", "y", request=api)

    gone = json.dumps({"status": {"capacity": {"x": None, "y": None}, "allocatable": {"x": None, "y": None}}})
    assert [asked for asked in api.asked if asked.startswith("PATCH")] == [
        f"PATCH /api/v1/nodes/{name}/status {gone}" for name in "ac"
    ]


@pytest.mark.parametrize(("code", "raises"), [(403, False), (500, True)])
def test_pre_delete_says_what_it_may_not_take_off_and_goes_on(
    program: dict[str, Any], capsys: pytest.CaptureFixture[str], code: int, raises: bool
) -> None:
    found = {"metadata": {}, "items": [{"metadata": {"name": n}, "status": {"capacity": {"x": "1"}}} for n in "ab"]}
    asked = []

    def refuse(method: str, path: str, body: Any = None) -> Any:
        asked.append(method)
        if method == "PATCH":
            raise urllib.error.HTTPError(path, code, "no", email.message.Message(), None)
        return found

    with pytest.raises(urllib.error.HTTPError) if raises else contextlib.nullcontext():
        program["withdraw"]("x", request=refuse)
    assert asked == ["GET", "PATCH"]
    assert raises or "left x on nodes" in capsys.readouterr().out


# --- PodSecurity ---


def pod_specs(objects: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The pods that the rendered workloads make, those of hooks included."""
    found = {}
    for name, one in objects.items():
        if one["kind"] == "Pod":
            found[name] = one["spec"]
        elif "template" in one.get("spec", {}):
            found[name] = one["spec"]["template"]["spec"]
    return found


@pytest.mark.parametrize(
    ("name", "values"),
    [
        *((name, {}) for name in USERS_OF_THE_LIBRARY),
        *((name, EVERYTHING) for name in SERVICES),
        ("scheduler", {"schedulerName": "default-scheduler"}),
    ],
)
def test_pods_of_the_system_pass_restricted(helm: Path, name: str, values: dict[str, Any]) -> None:
    """The namespace they run in enforces it."""
    specs = pod_specs(Chart(helm, name).objects(values))

    assert len(specs) == (2 if name in SERVICES else 1), "the Deployment, and the Job before it is uninstalled"
    assert {where: violations(spec) for where, spec in specs.items()} == {where: [] for where in specs}


# --- metrics beside CPU and memory ---

NETWORK = {"name": "network", "node": "up > 0", "capacity": "1", "pod": "1", "priority": 3}


def test_added_metrics_reach_the_regulator_as_they_are_written(helm: Path) -> None:
    levels = {"lower": 50, "admission": 60, "upper": 80, "throttle": 75, "restore": 65}
    metric = {**NETWORK, "throttle": "quantified", "sort": "age", "levels": levels}
    found = environment(Chart(helm, "regulator").objects({"addedMetrics": [metric]})["Deployment"])
    (one,) = parse_added(found["SCAVENGER_ADDED_METRICS"])
    assert (one.metric.name, one.metric.priority, one.node, one.pod) == ("network", 3, "up > 0", "1")
    assert (one.sort, one.metric.throttle, one.metric.lines) == ("age", "quantified", ThrottleLines(75.0, 65.0))
    assert "SCAVENGER_ADDED_METRICS" not in environment(Chart(helm, "regulator").objects()["Deployment"])


def test_level_policies_reach_the_regulator_as_they_are_written(helm: Path) -> None:
    small = {
        "name": "small",
        "nodeSelector": {"size": "small"},
        "levels": {"cpu": {"lower": 1, "admission": 2, "upper": 3, "throttle": 2.5, "restore": 2}},
    }
    found = environment(Chart(helm, "regulator").objects({"levelPolicies": [small]})["Deployment"])
    (one,) = parse_policies(found["SCAVENGER_LEVEL_POLICIES"])
    assert (one.name, one.selector, one.levels["cpu"].upper) == ("small", {"size": "small"}, 3.0)
    assert one.lines == {"cpu": ThrottleLines(2.5, 2.0)}


def test_a_field_that_metrics_do_not_have_is_refused(helm: Path) -> None:
    with pytest.raises(AssertionError, match="weight"):
        Chart(helm, "regulator").objects({"addedMetrics": [{**NETWORK, "weight": 1}]})


# --- reclaimed capacity ---


def test_reclaimed_capacity_is_one_switch(helm: Path) -> None:
    chart = Chart(helm, "regulator")
    off, on = chart.objects(), chart.objects({"reclaimed": {"enabled": True}})

    def may(objects: dict[str, dict[str, Any]]) -> list[Any]:
        return [rule["verbs"] for rule in objects["ClusterRole"]["rules"] if rule["resources"] == ["nodes/status"]]

    policy = "ValidatingAdmissionPolicy"
    assert (may(off), policy in off, environment(off["Deployment"]).get("SCAVENGER_RECLAIMED")) == ([], False, None)
    assert (may(on), policy in on, environment(on["Deployment"])["SCAVENGER_RECLAIMED"]) == ([["patch"]], True, "true")
    assert on[policy]["metadata"]["name"] == "scavenger-regulator-nodes"
    condition = on[policy]["spec"]["matchConditions"][0]["expression"]
    assert "'system:serviceaccount:elsewhere:scavenger-regulator'" in condition


def test_reclaimed_capacity_is_withdrawn_with_the_right_to_do_so(helm: Path) -> None:
    objects = Chart(helm, "regulator").objects({"reclaimed": {"enabled": True}, "settings": {"reclaimed": False}})

    assert environment(objects["Deployment"])["SCAVENGER_RECLAIMED"] == "false"
    assert any(rule["resources"] == ["nodes/status"] for rule in objects["ClusterRole"]["rules"])
