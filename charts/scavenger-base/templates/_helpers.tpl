{{- define "scavenger.baseLabels" -}}
app.kubernetes.io/part-of: scavenger-jobs
{{- with .Values.labels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- /* Subjects of a FlowSchema: (list $ COMPONENT...). Names of service accounts are part of the contract. */ -}}
{{- define "scavenger.flowSubjects" -}}
{{- range rest . }}
- kind: ServiceAccount
  serviceAccount:
    name: scavenger-{{ . }}
    namespace: {{ (first $).Release.Namespace }}
{{- end }}
{{- end }}
