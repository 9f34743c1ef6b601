"""Every name of the contract, once: what users and other programs may rely on, to the letter."""

from __future__ import annotations

from typing import Final

GROUP: Final = "scavenger.dev"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
SYSTEM_NAMESPACE: Final = "scavenger-system"

# --- PriorityClasses ---
# Pods that name no class always had 0, so that a default class of 0 changes no rank.
# Both scavenger classes lie below -10, the cluster autoscaler's cut-off: it neither scales up for such pods
# nor counts them as a reason not to scale down.
PRIORITY_CLASS_ORDINARY: Final = "ordinary-workload"
PRIORITY_CLASS_NON_PREEMPTIBLE: Final = "scavenger-non-preemptible"
PRIORITY_CLASS_PREEMPTIBLE: Final = "scavenger-preemptible"
PRIORITY_VALUES: Final = {
    PRIORITY_CLASS_ORDINARY: 0,
    PRIORITY_CLASS_NON_PREEMPTIBLE: -1000,
    PRIORITY_CLASS_PREEMPTIBLE: -2000,
}

# --- labels ---
LABEL_JOB: Final = f"{GROUP}/job"
# On a pod of an array: the index of its task.
LABEL_TASK: Final = f"{GROUP}/task"
LABEL_QUEUE: Final = f"{GROUP}/queue"
LABEL_PREEMPTION_CLASS: Final = f"{GROUP}/preemption-class"
# On an Eviction, not on a pod: the admission policies look up which pod it is about (docs/designs/0010-the-guard.md).
LABEL_EVICTION: Final = f"{GROUP}/eviction"
# On a pod whose node has no regular pod: the PodDisruptionBudget leaves it out, so that an autoscaler takes the node.
LABEL_BUDGET: Final = f"{GROUP}/disruption-budget"
NO_BUDGET: Final = "none"
PREEMPTIBLE: Final = "preemptible"
NON_PREEMPTIBLE: Final = "non-preemptible"
# On a namespace, by the administrator: which level of the Pod Security Standards its scavenger jobs keep.
LABEL_POD_SECURITY: Final = f"{GROUP}/pod-security"
LABEL_POD_SECURITY_ENFORCE: Final = "pod-security.kubernetes.io/enforce"

# --- batch/v1 Jobs that users create and the admitter runs (docs/designs/0032-adopted-jobs.md) ---
MANAGED_BY_ADOPTER: Final = f"{GROUP}/adopter"
"""spec.managedBy of an adopted Job. The field is immutable, so an adopted Job never becomes a ScavengerJob's."""
LABEL_ADOPT: Final = f"{GROUP}/adopt"
"""On a namespace, by the administrator: which of its Jobs are adopted. On a Job: `never`."""
ADOPT_LABELLED: Final = "labelled"
"""Only Jobs that have `LABEL_QUEUE` themselves."""
ADOPT_ALL: Final = "all"
"""Also those without, as far as nothing forbids it."""
ADOPT_NEVER: Final = "never"
LABEL_KUEUE_QUEUE: Final = "kueue.x-k8s.io/queue-name"
"""On a Job that Kueue starts: it is never adopted."""
LABEL_ADOPT_QUEUE: Final = f"{GROUP}/adopt-queue"
"""On a namespace, by the administrator: the queue of its adopted Jobs that name none."""
LABEL_KIND: Final = f"{GROUP}/kind"
"""On a pod: the kind of the object whose name `LABEL_JOB` is, where that is no ScavengerJob."""
KIND_JOB: Final = "Job"
CONDITION_LEDGER: Final = f"{GROUP}/Ledger"
"""In the status of an adopted Job: what the admitter has counted. Always False, so that it is not taken for an end."""
JOB_LABELS: Final = (
    "job-name",
    "controller-uid",
    "batch.kubernetes.io/job-name",
    "batch.kubernetes.io/controller-uid",
)
"""By which clients find the pods of a Job. An interrupted pod loses them before it ends."""
# On a Job, or in the jobTemplate of a CronJob, by the user. What ScavengerJobs have in their spec.
ANNOTATION_INTERRUPTION_AFTER: Final = f"{GROUP}/interruption-after"
ANNOTATION_CHECKPOINT_EXIT_CODE: Final = f"{GROUP}/checkpoint-exit-code"
ANNOTATION_GANG: Final = f"{GROUP}/gang"
"""Makes the pods of an Indexed Job a gang where it is "true"."""
# On an adopted Job, by an administrator: it is to become a regular Job (`scavenger_domain.release`).
ANNOTATION_RELEASE: Final = f"{GROUP}/release"
RELEASE_REQUESTED: Final = "requested"
LEDGER_RELEASING: Final = "Releasing"
"""The phase in the ledger of a Job that is to be released, and of which nothing runs any more."""

# --- annotations ---
# On a namespace, by the administrator: the service accounts whose tokens its scavenger jobs get, between commas.
ANNOTATION_SERVICE_ACCOUNTS: Final = f"{GROUP}/service-accounts"
# On a namespace, by the administrator: the user id of scavenger pods that name none, alone or as START/SIZE.
ANNOTATION_RUN_AS_USER: Final = f"{GROUP}/run-as-user"
# On a namespace, by the administrator: what the main container of a pod template gets that names no cpu, or no memory
# (charts/scavenger-base/templates/default-resources.yaml). With -per-gpu behind, for each GPU of the container.
ANNOTATION_DEFAULT: Final = {resource: f"{GROUP}/default-{resource}" for resource in ("cpu", "memory")}
# On a ResourceQuota: the webhook has added the scope that leaves scavenger pods out, and uninstalling it takes it back.
ANNOTATION_QUOTA_SCOPE: Final = f"{GROUP}/quota-scope"
ANNOTATION_RUNNING_PRIORITY: Final = f"{GROUP}/running-priority"
# On a pod that was resized in place, by the admitter (scavenger_domain.sizes).
ANNOTATION_REQUESTED_CPU: Final = f"{GROUP}/requested-cpu"
ANNOTATION_LAST_CHECKPOINT: Final = f"{GROUP}/last-checkpoint"
# On a namespace, by the administrator: other controllers are told what its regular pods would lose.
LABEL_COSTS: Final = f"{GROUP}/disruption-costs"
COSTS_ENABLED: Final = "enabled"
ANNOTATION_DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
"""On a pod: the ReplicaSet controller deletes pods with a lower one first."""
ANNOTATION_PRIORITY_BOOST: Final = "kueue.x-k8s.io/priority-boost"
"""On a Workload of Kueue: what is added to its priority."""
LABEL_KUEUE_JOB: Final = "kueue.x-k8s.io/job-uid"
"""On a Workload of Kueue: the UID of the Job that it is of."""
ANNOTATION_LATENCY: Final = f"{GROUP}/latency"
LATENCY_INTERACTIVE: Final = "interactive"
# On the batch/v1 Job: which place in the queue this run was started from (docs/designs/0001-run-identity.md).
MANAGED_BY: Final = "scavenger.dev/admitter"
"""spec.managedBy of the Jobs whose pods the admitter creates."""
ANNOTATION_RUN: Final = f"{GROUP}/run"
ANNOTATION_GRANT: Final = f"{GROUP}/grant"
"""On the pod of a task: the number of the decision that gave it capacity (docs/designs/0023-arrays.md)."""
ANNOTATION_INDEX: Final = f"{GROUP}/index"
"""On the pod of a task: the index that its user gave it (`spec.array.indexes`). Names and labels count from 0 on."""
ANNOTATION_POD_SUFFIX: Final = f"{GROUP}/pod-suffix"
"""In the template of a Job: the end of the names of its pods (`scavenger_api.pod_names`)."""
ANNOTATION_RESTARTS: Final = f"{GROUP}/restarts"
ANNOTATION_INTERRUPTED: Final = f"{GROUP}/interrupted"
"""On the pod of a task whose last run others interrupted."""

SERVICE_PREFIX: Final = "sj-"
"""Before the name of a gang, the name of the headless Service of its pods. That must begin with a letter
(RFC 1035), and a ScavengerJob may begin with a digit."""

FINALIZER: Final = f"{GROUP}/interruption-record"
# On a ScavengerQueue: its jobs go first.
QUEUE_FINALIZER: Final = f"{GROUP}/queue-release"

# --- the ConfigMap of the admitter ---
NODES_CONFIGMAP: Final = "scavenger-nodes"

# --- the ConfigMap of the regulator ---
LEVELS_CONFIGMAP: Final = "scavenger-levels"
LEVELS_PREEMPTIBLE_PERCENTAGE: Final = "preemptiblePercentage"
LEVELS_STATE: Final = "state"
LEVELS_ADMIT: Final = "admit"
LEVELS_RESERVE: Final = "reserve"
LEVELS_OBSERVED_AT: Final = "observedAt"
LEVELS_PERIOD_SECONDS: Final = "periodSeconds"
LEVELS_RESOURCES: Final = ("cpu", "memory")
LEVELS_PER_RESOURCE: Final = ("load", "mean", "stdev", "lower", "upper", "admission")
STALE_AFTER_PERIODS: Final = 3

# --- extended resources of reclaimed capacity ---
RESOURCE_RECLAIMED_CPU: Final = f"{GROUP}/reclaimed-cpu"
RESOURCE_RECLAIMED_MEMORY: Final = f"{GROUP}/reclaimed-memory"

# The one PodDisruptionBudget of a namespace, over its non-preemptible scavenger pods.
DISRUPTION_BUDGET: Final = "scavenger-non-preemptible"
LABEL_MANAGED_BY: Final = "app.kubernetes.io/managed-by"

# --- service accounts, which are also the field managers ---
ADMITTER: Final = "scavenger-admitter"
REGULATOR: Final = "scavenger-regulator"
PRIORITIZER: Final = "scavenger-prioritizer"
WEBHOOK: Final = "scavenger-webhook"
SCHEDULER: Final = "scavenger-scheduler"
BOARD: Final = "scavenger-board"

# A leader renews its Lease every few seconds. After so long without, no replica leads, or its clock is wrong.
LEADER_SILENT_SECONDS: Final = 60.0

# --- the container of a job's program, and its environment ---
MAIN_CONTAINER: Final = "main"
# Where the program is another container; kubectl reads it as well.
ANNOTATION_DEFAULT_CONTAINER: Final = "kubectl.kubernetes.io/default-container"
ENV_INDEX: Final = "SCAVENGER_INDEX"
ENV_PARALLELISM: Final = "SCAVENGER_PARALLELISM"
ENV_PEERS: Final = "SCAVENGER_PEERS"
ENV_RESTARTS: Final = "SCAVENGER_RESTARTS"
ENV_CHECKPOINT_INTERVAL: Final = "SCAVENGER_CHECKPOINT_INTERVAL"
# Of tasks only; a variable of the user's with such a name gives way.
ENV_TASK: Final = "SCAVENGER_TASK"
ENV_TASKS: Final = "SCAVENGER_TASKS"
RESERVED_ENV: Final = (ENV_INDEX, ENV_PARALLELISM, ENV_PEERS, ENV_RESTARTS, ENV_CHECKPOINT_INTERVAL)

# The reason of condition Running while it is True, and of no condition before it in the list: by it `kubectl get
# sj` finds the start of the present run (column RUNTIME).
REASON_RUNNING: Final = "Running"

DEFAULT_QUEUE: Final = "default"
MAX_GRACE_SECONDS: Final = 3600
"""Between SIGTERM and SIGKILL, whatever a job asks for."""
MAX_SPEC_BYTES: Final = 256 * 1024
"""Bytes of the spec of a ScavengerJob as JSON."""
MAX_PODS_BYTES: Final = 256 * 1024 * 1024
"""Bytes of all pods of a ScavengerJob that may run at once, as JSON. By default etcd takes 2 GiB of all objects."""

EVERY_TAINT: Final = "*"
"""In settings, in the place of the key of a taint: all of them."""

RESTRICTED_CAPABILITIES: Final = frozenset({"NET_BIND_SERVICE"})
"""Capabilities that PodSecurity `restricted` lets a container add."""

BASELINE_CAPABILITIES: Final = RESTRICTED_CAPABILITIES | {
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
}
"""Capabilities that PodSecurity `baseline` lets a container add."""

MAX_NAME_LENGTH: Final = 52
MAX_LABEL_LENGTH: Final = 63
"""Of the value of a label, and of a host name. The name of a pod is no longer, as others select and group by it."""
MAX_RECENT_TIMESTAMPS: Final = 20
# Extended resources that a status accounts for.
MAX_DEVICES: Final = 8

# --- defaults of the spec ---
DEFAULT_INTERRUPTION_AFTER: Final = "30m"
MAX_INTERRUPTION_AFTER_SECONDS: Final = 7 * 86400.0
"""The longest that the definition of ScavengerJob allows."""
DEFAULT_TERMINATION_GRACE_PERIOD_SECONDS: Final = 30

# What a restart costs each core of a job, unless the components are configured otherwise (docs/preemption-classes.md).
DEFAULT_STARTUP_COST_SECONDS: Final = 60.0

# The longest interruptionAfter that is taken at its word, unless the components are configured otherwise
# (docs/designs/0011-tenancy.md).
DEFAULT_TRUSTED_INTERVAL_SECONDS: Final = 7200.0

# How long a job is preemptible after a checkpoint or a start, unless the components are configured otherwise
# (docs/preemption-classes.md).
DEFAULT_START_OVER_WINDOW_SECONDS: Final = 60.0

# How many cores a unit of a resource is worth (scavenger_api.weights), unless the chart scavenger-base says otherwise.
# A name that ends with `*` stands for all that begin so. The scheduler plugin has the same table; its weight_cases.json
# holds both to it.
DEFAULT_RESOURCE_WEIGHTS: Final = {
    "cpu": 1.0,
    "memory": 0.0,
    "nvidia.com/*": 16.0,
    "amd.com/*": 16.0,
    "gpu.intel.com/*": 16.0,
    "habana.ai/*": 16.0,
    "google.com/tpu*": 16.0,
    "aws.amazon.com/neuron*": 16.0,
    "huawei.com/*": 16.0,
    "cambricon.com/*": 16.0,
    # Of an A30, which has four slices.
    "nvidia.com/mig-1g.6gb*": 4.0,
    "nvidia.com/mig-2g.12gb*": 8.0,
    "nvidia.com/mig-4g.24gb*": 16.0,
    # Shares that are counted in parts: percent, thousandths, and two cores of a device.
    "nvidia.com/gpucores": 0.16,
    "volcano.sh/vgpu-cores": 0.16,
    "gpu.intel.com/millicores": 0.016,
    "aws.amazon.com/neuroncore": 8.0,
}
# The ConfigMap of the chart scavenger-base with what all components read alike (scavenger_api.shared_settings), and its
# key for the weights.
LAST_WORDS: Final = {
    REGULATOR: "scavenger-last-words-regulator",
    PRIORITIZER: "scavenger-last-words-prioritizer",
}
"""ConfigMaps with what pods said as they ended, by the component that took the admitter's finalizer off them."""

SETTINGS_CONFIGMAP: Final = "scavenger-settings"
SETTING_RESOURCE_WEIGHTS: Final = "resourceWeights"

# Without a regulator: admission under this percentage of requests (docs/levels.md).
FALLBACK_ADMISSION_PERCENT: Final = 70.0
FALLBACK_PREEMPTIBLE_PERCENT: Final = 33.0
