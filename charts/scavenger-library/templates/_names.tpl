{{- define "scavenger.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/part-of: scavenger-jobs
{{- with .Values.labels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- /* Metadata of what the component has one of: named like its chart, in the namespace of the release. */ -}}
{{- define "scavenger.metadata" -}}
name: {{ .Chart.Name }}
namespace: {{ .Release.Namespace }}
labels:
  {{- include "scavenger.labels" . | nindent 2 }}
{{- end }}

{{- /* The same for what has no namespace. */ -}}
{{- define "scavenger.clusterMetadata" -}}
name: {{ .Chart.Name }}
labels:
  {{- include "scavenger.labels" . | nindent 2 }}
{{- end }}
