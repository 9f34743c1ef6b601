{{- /* The pods of scavenger jobs carry a finalizer that nobody but the admitter would take off. */ -}}
{{- define "scavenger.uninstall.rules" -}}
{{- end }}

{{- define "scavenger.uninstall.objects" -}}
{{- end }}

{{- define "scavenger.uninstall.args" -}}
[uninstall]
{{- end }}
