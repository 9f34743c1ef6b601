"""What each thing that a tenant can create may cost at most, who sees to that, and the test that tries it.

`tools.reference` writes docs/costs.md from this. The numbers are those that the code goes by, so none is written twice.
tests/unit/tools/test_costs.py fails when a test that is named here does not exist.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from scavenger_admitter import dry_runs, lookups, reconciler, slim_jobs, volume_topologies, writer
from scavenger_admitter.core.adopted import ledger
from scavenger_admitter.core.lifecycle.books import many
from scavenger_admitter.core.lifecycle.managed import PODS_AGAIN_SECONDS
from scavenger_admitter.job_record import PODS_AGAIN_MOST
from scavenger_admitter.settings import AdmitterSettings
from scavenger_api import names
from scavenger_api.array import MAX_COUNTED
from scavenger_api.indexes import MAX_COUNTS_LENGTH, MAX_SET_LENGTH, MAX_TASKS
from scavenger_api.job import MAX_PARALLELISM
from scavenger_api.rules.references import MAX_REFERENCES
from scavenger_kube.nesting import MAX_DEPTH
from scavenger_runtime import connections, events, kept_parts, paging, write_budget
from scavenger_webhook import server as webhook_server
from scavenger_webhook.app import Limits

COSTS: Final = (
    "depth",
    "JSON",
    "memory",
    "API requests",
    "writes",
    "pods",
    "etcd",
    "places",
)
"""What a thing may cost; each has a row where it costs any of it."""


@dataclass(frozen=True)
class Bound:
    """One row.

    Attributes:
        one: for one object.
        namespace: for all of a namespace together.
        by: who enforces it.
        test: `FILE::NAME` of the test that tries the worst that is let in.
    """

    one: str
    namespace: str
    by: str
    test: str


def size(count: int) -> str:
    """Bytes, in words."""
    for unit, each in (("MiB", 2**20), ("KiB", 2**10)):
        if count >= each and count % (each // 2) == 0:
            return f"{count / each:g} {unit}"
    return f"{count:,} bytes"


_JOBS: Final = "ResourceQuota `count/scavengerjobs.scavenger.dev`"
_PODS: Final = "ResourceQuota `count/pods`"
_BATCH: Final = "ResourceQuota `count/jobs.batch`"
_ADMITTER: Final = "tests/unit/admitter"
_READ: Final = "tests/integration/api/test_stored_objects.py::test_an_odd_object_costs_itself_only"
_SETTINGS: Final = AdmitterSettings.model_fields
_LIMITS: Final = Limits()

THINGS: Final[Mapping[str, Mapping[str, Bound]]] = {
    "Any object": {
        "depth": Bound(
            f"{MAX_DEPTH} levels are read, of 10,000 that the API server stores",
            "as of one",
            "each client, before it decodes an answer",
            "tests/unit/kube/test_nesting.py::test_ten_thousand_levels_hide_no_neighbour",
        ),
        "JSON": Bound(
            f"{size(reconciler.LARGEST_POD)}, by etcd; lists are read in pages of {size(paging.PAGE_BYTES)}",
            "ResourceQuota `count/…`",
            "API server; each informer",
            "tests/unit/runtime/test_informer.py::test_a_page_is_bounded_in_bytes_wherever_large_objects_are",
        ),
        "memory": Bound(
            f"the fields that decisions read, of labels and of annotations {size(kept_parts.MOST)}",
            "ResourceQuota `count/…`",
            "each informer",
            "tests/unit/runtime/test_kept_parts.py::test_own_keys_and_short_ones_stay",
        ),
        "API requests": Bound(
            "none more than any other: an object that cannot be read is left out, and no other with it",
            "as of one",
            "each informer, `kubectl sj`",
            _READ,
        ),
    },
    "A ScavengerJob": {
        "depth": Bound(
            f"{MAX_DEPTH} levels",
            "as of one",
            "each client",
            "tests/unit/runtime/test_mutated_objects.py::test_an_odd_object_costs_itself_only",
        ),
        "JSON": Bound(
            f"{size(names.MAX_SPEC_BYTES)} of spec",
            _JOBS,
            "webhook; admitter, which starts no larger one",
            f"{_ADMITTER}/test_slim_jobs.py::test_a_spec_that_is_too_large_is_told_and_not_started",
        ),
        "memory": Bound(
            f"a spec of up to {size(slim_jobs.KEPT_BYTES)} as it is; of a larger one no commands and no values of"
            " variables",
            _JOBS,
            "admitter",
            f"{_ADMITTER}/test_slim_jobs.py::test_nothing_large_is_left_of_a_spec_that_is_too_large",
        ),
        "API requests": Bound(
            f"{lookups.WAITING_BURST:g} after a minute and {lookups.WAITING_PER_HOUR:g} an hour, for references of a"
            " job that waits",
            f"one each {reconciler.LOOK_APART_SECONDS:g} s for all namespaces, which take turns",
            "admitter",
            f"{_ADMITTER}/test_references.py::test_a_job_that_waits_asks_at_most_twenty_times_an_hour",
        ),
        "writes": Bound(
            "its status where it changes; what only explains waits for its turn",
            f"{_SETTINGS['concurrent_starts'].default} Jobs are created at once",
            f"admitter: {_SETTINGS['write_rate'].default:g} writes a second for all",
            f"{_ADMITTER}/test_starts.py::test_creates_that_hang_in_one_namespace_keep_no_other_waiting",
        ),
        "pods": Bound(
            f"`parallelism`, at most {MAX_PARALLELISM:,}, and {size(names.MAX_PODS_BYTES)} of their specs as JSON,"
            " until the job is deleted",
            _PODS,
            "CRD; API server; webhook and admitter for the bytes",
            "tests/unit/api/test_rules_size.py::test_the_pods_of_a_gang_have_so_many_bytes_together",
        ),
        "etcd": Bound(
            f"{size(names.MAX_SPEC_BYTES)} of spec, {names.MAX_RECENT_TIMESTAMPS} times of each kind in the status",
            _JOBS,
            "webhook; admitter",
            "tests/unit/api/test_rules_size.py::test_bytes_are_counted_and_not_characters",
        ),
        "places": Bound(
            "one in the queue, whatever its size",
            "the share and the quota of the queue",
            "admitter",
            f"{_ADMITTER}/test_starts.py::test_jobs_are_called_by_their_places_in_line",
        ),
    },
    "Its pod template": {
        "memory": Bound(
            f"as the job; labels and annotations of a job are not kept, those of a template are part of the"
            f" {size(names.MAX_SPEC_BYTES)}",
            _JOBS,
            "admitter",
            f"{_ADMITTER}/test_slim_jobs.py::test_all_that_is_read_of_a_template_is_kept_of_a_large_one",
        ),
        "API requests": Bound(
            f"one dry run in {dry_runs.AGAIN_SECONDS / 60:g} minutes, where it finds no node",
            f"one each {dry_runs.APART_SECONDS:g} s for all namespaces, which take turns",
            "admitter",
            f"{_ADMITTER}/test_as_created.py::test_namespaces_take_turns_to_ask",
        ),
        "writes": Bound(
            f"after a refusal none for {PODS_AGAIN_SECONDS:g} s, doubled up to {PODS_AGAIN_MOST:g} s; what was made is"
            " not sent again",
            "as of one",
            "admitter",
            f"{_ADMITTER}/test_managed_jobs.py::test_pods_that_the_api_server_does_not_take_are_sent_less_and_less_often",
        ),
    },
    "An array": {
        "writes": Bound(
            f"its status each {many.WRITE_EVERY.total_seconds():g} s, a large one each"
            f" {many.WRITE_LARGE_EVERY.total_seconds():g} s; {MAX_COUNTED} ends of tasks in one",
            "as of one",
            "admitter",
            f"{_ADMITTER}/test_array.py::test_five_hundred_are_counted_in_one_write",
        ),
        "pods": Bound(
            f"{MAX_TASKS:,} tasks, `maxRunning` and {size(names.MAX_PODS_BYTES)} of pods as JSON at a time; of those"
            f" that ended, {many.KEPT_PODS:,} are kept",
            _PODS,
            "CRD; admitter",
            f"{_ADMITTER}/test_array.py::test_as_many_large_pods_run_as_have_256_mib_together",
        ),
        "etcd": Bound(
            f"{size(many.KEPT_BYTES)} of pods that are kept, as JSON at their creation, which is at"
            f" most 16 MiB; {size(MAX_SET_LENGTH)} for each set of tasks, {size(MAX_COUNTS_LENGTH)} for retries",
            _JOBS,
            "admitter",
            "tests/integration/api/test_stored_objects.py::test_what_an_array_keeps_takes_at_most_16_mib_of_etcd",
        ),
    },
    "An adopted Job": {
        "JSON": Bound(
            f"{size(names.MAX_SPEC_BYTES)} of what its pods are made of: a larger one is told, and never starts",
            _BATCH,
            "admitter",
            f"{_ADMITTER}/test_slim_jobs.py::test_a_job_of_a_user_that_is_too_large_is_told_and_not_started",
        ),
        "memory": Bound(
            f"its template as that of a ScavengerJob, {size(kept_parts.MOST)} of labels and of annotations, its status:"
            " of Jobs as hostile as the test has them, 128 KiB",
            _BATCH,
            "admitter",
            f"{_ADMITTER}/test_slim_jobs.py::test_of_a_hostile_job_of_a_user_little_is_kept",
        ),
        "writes": Bound(
            f"its status each {many.WRITE_EVERY.total_seconds():g} s, a large one each"
            f" {many.WRITE_LARGE_EVERY.total_seconds():g} s; {ledger.MAX_COUNTED} ends of pods in one",
            "as of one",
            "admitter",
            f"{_ADMITTER}/test_adopted_jobs.py::test_a_job_of_ten_thousand_completions_is_written_once_a_second",
        ),
        "pods": Bound(
            f"{MAX_TASKS:,} completions, `parallelism` and {size(names.MAX_PODS_BYTES)} of pods as JSON at a time; of"
            f" those that ended, {many.KEPT_PODS:,} are kept",
            _PODS,
            "admission policies; admitter",
            f"{_ADMITTER}/test_adopted_jobs.py::test_a_job_of_ten_thousand_completions_is_written_once_a_second",
        ),
        "etcd": Bound(
            f"{size(ledger.MAX_BYTES)} of ledger; the indexes that completed, as the Job controller writes them",
            _BATCH,
            "admitter",
            f"{_ADMITTER}/test_ledger.py::test_the_longest_ledger_is_within_its_bound",
        ),
        "places": Bound(
            "one in the queue, whatever its size",
            "the share and the quota of the queue",
            "admitter",
            f"{_ADMITTER}/test_starts.py::test_jobs_are_called_by_their_places_in_line",
        ),
    },
    "A gang": {
        "API requests": Bound(
            f"{writer.PODS_AT_ONCE} pods are created at once, the first one alone",
            f"{_SETTINGS['concurrent_starts'].default} jobs are started at once",
            "admitter",
            f"{_ADMITTER}/test_managed_jobs.py::test_of_a_half_made_gang_only_what_is_missing_is_sent_again_and_ever_more_rarely",
        ),
    },
    "A regular pod": {
        "memory": Bound(
            "2.5 kB in the admitter; more only of what the pod requests",
            _PODS,
            "admitter",
            f"{_ADMITTER}/test_pods_kept.py::test_an_ordinary_pod_takes_less_than_two_and_a_half_kilobytes",
        ),
        "writes": Bound(
            f"slows the starts of jobs for {write_budget.PRESSURE_SECONDS:g} s, where a node could take it",
            f"{write_budget.NAMESPACE_SECONDS / 60:g} minutes an hour",
            "admitter and prioritizer",
            "tests/unit/runtime/test_write_budget.py::test_a_namespace_presses_for_five_minutes_an_hour",
        ),
    },
    "Claims, ConfigMaps and Secrets": {
        "API requests": Bound(
            f"{MAX_REFERENCES} in one job",
            f"starts ask {lookups.ASKED_PER_SECOND:g} times a second, after a while {lookups.BURST:g} times at once",
            "webhook; admitter",
            f"{_ADMITTER}/test_references.py::test_starts_of_a_namespace_look_for_so_many_objects_in_a_second",
        ),
        "memory": Bound(
            "the name, and whether it was there; of a claim also the nodes that can use it",
            f"{lookups.KEPT:,} objects and {volume_topologies.KEPT_CLAIMS:,} claims of all namespaces",
            "admitter",
            f"{_ADMITTER}/test_references.py::"
            "test_what_was_found_is_remembered_until_it_is_asked_for_again_and_of_bounded_many",
        ),
    },
    "Events": {
        "writes": Bound(
            f"components write {events.BURST} about one object, then one each {events.REFILL_SECONDS / 60:g} minutes,"
            f" of up to {size(events.MESSAGE_BYTES)}",
            f"{events.CAPACITY:,} wait to be written, of all namespaces",
            "each component",
            "tests/unit/runtime/test_events.py::test_one_object_cannot_flood",
        ),
        "memory": Bound(
            f"{size(kept_parts.MOST_TEXT)} of the message; those of tenants are read for a few reasons, and count for"
            " objects of their own namespace",
            "ResourceQuota `count/events`",
            "admitter, board",
            "tests/unit/runtime/test_kept_parts.py::test_of_an_event_a_bounded_part_is_kept",
        ),
    },
    "A request to the webhook": {
        "JSON": Bound(
            f"{size(_LIMITS.max_body)}, {_LIMITS.max_values:,} values",
            f"{size(_LIMITS.max_held)} at once of all namespaces",
            "webhook",
            "tests/unit/webhook/test_hostile_bodies.py::test_of_too_much_at_once_the_last_is_turned_away_and_what_was_held_is_let_go",
        ),
    },
    "A connection": {
        "memory": Bound(
            f"{connections.PER_PEER} of one address to probes and metrics, {webhook_server.PER_PEER:,} to the webhook",
            "as of one",
            "each component",
            "tests/unit/runtime/test_connections.py::test_a_peer_has_so_many_connections_and_others_are_answered",
        ),
    },
}
"""All that a tenant can create. Queues are not among it: only cluster administrators create them."""
