{{- /* Secret, Service and configurations belong to the release: nothing is left behind. */ -}}
{{- define "scavenger.uninstall.rules" -}}
{{- end }}

{{- define "scavenger.uninstall.objects" -}}
{{- end }}

{{- define "scavenger.uninstall.args" -}}
{{- end }}
