{{- /* Levels that nobody renews are stale, and with stale levels the admitter starts nothing. */ -}}
{{- define "scavenger.uninstall.rules" -}}
- apiGroups: [""]
  resources: [configmaps]
  resourceNames: [scavenger-levels, scavenger-regulator-state]
  verbs: [delete]
{{- end }}

{{- define "scavenger.uninstall.objects" -}}
- /api/v1/namespaces/{{ .Release.Namespace }}/configmaps
- scavenger-levels
- scavenger-regulator-state
{{- end }}

{{- define "scavenger.uninstall.args" -}}
{{- end }}
