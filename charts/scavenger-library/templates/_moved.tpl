{{- /*
Values that went or moved, by chart and path, each with what to do. The schemas of the charts are closed, and take these keys
only so that the chart can refuse them in words: tools/generate_charts.py reads this table.
*/ -}}
{{- define "scavenger.moved" -}}
scavenger-admitter:
  settings.managedJobs: remove it. The admitter creates the pods of all its Jobs
scavenger-regulator:
  settings.historyBuckets: remove it. It is always 96
  settings.podCoverage: remove it. It is always 0.95
  settings.reclaimedHysteresis: remove it. It is always 2
  settings.reclaimedMemoryHysteresis: remove it. It is always 2
  settings.throttleMaxResizes: remove it. It is always 100
  settings.yieldHysteresis: set settings.yieldFrom, the load at which jobs begin to yield
scavenger-prioritizer:
  settings.statusStep: remove it. The admitter writes the status
scavenger-webhook:
  guard: set guard of the chart scavenger-base
  settings.authorityValidity: set authority.validityDays
  settings.trustOverlap: remove it. authority.rotation replaces an authority step by step
{{- end }}

{{- /* Fails where a value of the chart is one of these; it has changed nothing by then. */ -}}
{{- define "scavenger.refuseMoved" -}}
{{- $found := list }}
{{- range $path, $words := get (include "scavenger.moved" . | fromYaml) .Chart.Name | default dict }}
{{- $at := dict "value" $.Values "there" true }}
{{- range splitList "." $path }}
{{- if and (kindIs "map" $at.value) (hasKey $at.value .) }}
{{- $_ := set $at "value" (get $at.value .) }}
{{- else }}
{{- $_ := set $at "there" false }}
{{- end }}
{{- end }}
{{- if $at.there }}
{{- $found = append $found (printf "  %s: %s" $path $words) }}
{{- end }}
{{- end }}
{{- if $found }}
{{- fail (printf "%s no longer has these values:\n%s" .Chart.Name (join "\n" $found)) }}
{{- end }}
{{- end }}

{{- /*
Settings of a component that moved to the chart scavenger-base, which this version still honours.
chart: its name. settings: its values of that name.
*/ -}}
{{- define "scavenger.movedSettings" -}}
{{- $moved := dict "startupCost" "startupCostSeconds" "trustedInterval" "trustedIntervalSeconds" "startOverWindow" "startOverWindowSeconds" "minimumRun" "minimumRun" "resourceWeights" "resourceWeights" }}
{{- range $old, $new := $moved }}
{{- if hasKey ($.settings | default dict) $old }}

settings.{{ $old }} of {{ $.chart }} is deprecated, and the next version removes it. Remove it, and set
{{ $new }} of scavenger-base. All components read it there, and a change needs no restart.
{{- end }}
{{- end }}
{{- end }}
