{{- /* What the charts of all components say after `helm install`. root, everyReplicaServes: as of "scavenger.deployment". */ -}}
{{- define "scavenger.notes" -}}
{{- with .root -}}
{{ .Chart.Name }} {{ .Chart.AppVersion }} starts in namespace {{ .Release.Namespace }} with {{ .Values.replicas }} replica(s){{ if not $.everyReplicaServes }}, one of which leads{{ end }}.

  kubectl -n {{ .Release.Namespace }} rollout status deployment/{{ .Chart.Name }}
{{- if not $.everyReplicaServes }}
  kubectl -n {{ .Release.Namespace }} get lease {{ .Chart.Name }}              # the leader
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

Install all components into this namespace: they share its ConfigMaps.
{{- end }}
{{- if not .Values.uninstall.enabled }}

uninstall.enabled is false. Before `helm uninstall`, clean up by hand as docs/uninstall.md says.
{{- end }}
{{- end }}
{{- end }}
