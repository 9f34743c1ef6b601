{{- /* What the charts of all components say after `helm install`. root, everyReplicaServes: as of "scavenger.deployment". */ -}}
{{- define "scavenger.notes" -}}
{{- with .root -}}
{{ .Chart.Name }} {{ .Chart.AppVersion }} is on its way up in namespace {{ .Release.Namespace }}, with {{ .Values.replicas }} replica(s){{ if not $.everyReplicaServes }}, one of which leads{{ end }}.

  kubectl -n {{ .Release.Namespace }} rollout status deployment/{{ .Chart.Name }}
{{- if not $.everyReplicaServes }}
  kubectl -n {{ .Release.Namespace }} get lease {{ .Chart.Name }}              # who leads
{{- end }}
{{- end }}
{{- end }}

{{- /*
Where settings of a component stand that the chart scavenger-base has for all. They are honoured for this version.
chart: its name. settings: its values of that name.
*/ -}}
{{- define "scavenger.movedSettings" -}}
{{- $moved := dict "startupCost" "startupCostSeconds" "trustedInterval" "trustedIntervalSeconds" "startOverWindow" "startOverWindowSeconds" "minimumRun" "minimumRun" "resourceWeights" "resourceWeights" }}
{{- range $old, $new := $moved }}
{{- if hasKey ($.settings | default dict) $old }}

settings.{{ $old }} of {{ $.chart }} is deprecated, and the next version does not have it. Leave it out, and set
{{ $new }} of scavenger-base: all components read it there, and a change needs no restart.
{{- end }}
{{- end }}
{{- end }}

{{- /* The same and more, for a service. */ -}}
{{- define "scavenger.service.notes" -}}
{{- include "scavenger.notes" . }}
{{- with .root }}
  kubectl -n {{ .Release.Namespace }} logs -l app.kubernetes.io/name={{ .Chart.Name }} --tail 20
{{- include "scavenger.movedSettings" (dict "chart" .Chart.Name "settings" .Values.settings) }}
{{- if ne .Release.Namespace "scavenger-system" }}

The other services must be installed into this namespace too: they meet in its ConfigMaps.
{{- end }}
{{- if not .Values.uninstall.enabled }}

uninstall.enabled is off: before `helm uninstall`, clean up by hand as docs/install.md says.
{{- end }}
{{- end }}
{{- end }}
