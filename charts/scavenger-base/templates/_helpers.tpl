{{- define "scavenger.baseLabels" -}}
app.kubernetes.io/part-of: scavenger-jobs
{{- with .Values.labels }}
{{ toYaml . }}
{{- end }}
{{- end }}
