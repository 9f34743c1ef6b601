{{- /* A budget that nobody deletes would hold up every drain, for ever. */ -}}
{{- define "scavenger.uninstall.rules" -}}
{{- end }}

{{- define "scavenger.uninstall.objects" -}}
- /apis/policy/v1/poddisruptionbudgets
- scavenger-non-preemptible
{{- end }}

{{- define "scavenger.uninstall.args" -}}
{{- end }}
