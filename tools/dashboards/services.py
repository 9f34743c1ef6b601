"""For cluster administrators: whether the components keep up, lead, and get answers."""

from __future__ import annotations

from typing import Final

from tools.dashboards.model import Dashboard, Panel, Query, Row

RATE: Final = "[$__rate_interval]"


def _quantile(metric: str, by: str = "", quantile: float = 0.99) -> str:
    groups = f"{by}, le" if by else "le"
    return f"histogram_quantile({quantile}, sum by ({groups}) (rate({metric}_bucket{RATE})))"


def _errors(metric: str, legend: str, selector: str = "") -> Query:
    return Query(f"sum(increase({metric}{selector}[$__range])) or vector(0)", legend)


SERVICES: Final = Dashboard(
    uid="scavenger-services",
    title="Scavenger / Services",
    says="Whether the components keep up, lead, and get answers.",
    range="now-3h",
    rows=(
        Row(
            "Replicas",
            (
                Panel(
                    "Leaders",
                    "1 if a replica leads; the others stand by. The webhook has no leader: all its replicas answer.",
                    (Query("max by (lease) (scavenger_leader)", "{{lease}}"),),
                    kind="stat",
                    below="red",
                    thresholds=((1, "green"),),
                    words=(("0", "no leader"), ("1", "leads")),
                ),
                Panel(
                    "Replicas and versions",
                    "After a rollout, each component should have one version.",
                    (Query("count by (component, version) (scavenger_build_info)"),),
                    kind="table",
                ),
            ),
        ),
        Row(
            "Throughput",
            (
                Panel(
                    "Lag of the event loop, 99 %",
                    "How late timers fire. A high lag also delays the renewal of the Lease.",
                    (Query(_quantile("scavenger_event_loop_lag_seconds", "job"), "{{job}}"),),
                    unit="s",
                ),
                Panel(
                    "Keys and writes that wait",
                    "Objects to reconcile, and writes deferred while regular pods need the API server.",
                    (
                        Query("max by (loop) (scavenger_reconcile_queue_depth)", "keys: {{loop}}"),
                        Query("max by (urgency) (scavenger_writes_waiting)", "writes: {{urgency}}"),
                    ),
                ),
                Panel(
                    "One round, 99 %",
                    "An admission cycle, a period of the regulator, a pass of the prioritizer, an admission review.",
                    (
                        Query(_quantile("scavenger_admission_cycle_seconds"), "admission cycle"),
                        Query(_quantile("scavenger_regulator_period_seconds"), "regulator's period"),
                        Query(_quantile("scavenger_preemption_pass_seconds"), "prioritizer's pass"),
                        Query(_quantile("scavenger_webhook_review_seconds"), "webhook's review"),
                    ),
                    unit="s",
                ),
                Panel(
                    "Reconciles",
                    "Per second, by outcome.",
                    (Query(f"sum by (outcome) (rate(scavenger_reconciles_total{RATE}))", "{{outcome}}"),),
                    unit="reqps",
                ),
                Panel(
                    "Preemption attempts of the scheduler",
                    "Over the range shown, by result. no_candidate: displacing scavenger jobs would not help the pod.",
                    (
                        Query(
                            "sum by (result) (increase(scavenger_scheduler_preemption_attempts_total[$__range]))",
                            "{{result}}",
                        ),
                    ),
                    kind="bargauge",
                ),
                Panel(
                    "Reviews of the webhook",
                    "Over the range shown, by outcome.",
                    (Query("sum by (outcome) (increase(scavenger_webhook_reviews_total[$__range]))", "{{outcome}}"),),
                    kind="bargauge",
                ),
            ),
        ),
        Row(
            "The API server",
            (
                Panel(
                    "Requests",
                    "Per second, by service and answer.",
                    (Query(f"sum by (job, code) (rate(scavenger_api_requests_total{RATE}))", "{{job}} {{code}}"),),
                    unit="reqps",
                ),
                Panel(
                    "Duration, 99 %",
                    "Of requests, by method.",
                    (Query(_quantile("scavenger_api_request_seconds", "method"), "{{method}}"),),
                    unit="s",
                ),
                Panel(
                    "Age of what the caches show",
                    "Time since a cache was last known to be current. A component whose cache cannot keep up restarts "
                    "itself.",
                    (
                        Query(
                            "max by (job, informer) (scavenger_informer_last_event_age_seconds)", "{{job}} {{informer}}"
                        ),
                    ),
                    unit="s",
                ),
                Panel(
                    "Objects in the caches",
                    "By service and list.",
                    (Query("max by (job, informer) (scavenger_informer_objects)", "{{job}} {{informer}}"),),
                ),
            ),
        ),
        Row(
            "Errors and limits",
            (
                Panel(
                    "Errors",
                    "Over the range shown. A few are normal after a restart of the API server.",
                    (
                        _errors(
                            "scavenger_reconciles_total",
                            "reconciles failed",
                            '{outcome!~"success|requeue|not_found|Conflict"}',
                        ),
                        _errors("scavenger_informer_watch_errors_total", "lists and watches"),
                        _errors("scavenger_informer_handler_errors_total", "handlers"),
                        _errors("scavenger_events_total", "Events not written", '{outcome=~"dropped|failed"}'),
                        _errors("scavenger_failed_starts_total", "starts that failed"),
                        _errors("scavenger_preemption_passes_total", "prioritizer's passes", '{outcome="failed"}'),
                        _errors("scavenger_regulator_measurements_total", "measurements", '{outcome="failed"}'),
                    ),
                    below="green",
                    thresholds=((1, "yellow"),),
                    kind="bargauge",
                ),
                Panel(
                    "Memory",
                    "Resident, by service.",
                    (
                        Query(
                            "max by (job) (process_resident_memory_bytes and on (job, instance) scavenger_build_info)",
                            "{{job}}",
                        ),
                    ),
                    unit="bytes",
                ),
                Panel(
                    "Webhook's certificate expires in",
                    "The webhook renews it long before.",
                    (Query("min(scavenger_webhook_certificate_expiry_timestamp_seconds) - time()", "certificate"),),
                    kind="stat",
                    unit="s",
                    below="red",
                    thresholds=((86400, "yellow"), (7 * 86400, "green")),
                    width=6,
                ),
            ),
        ),
    ),
)
