{{- /*
Levels that nobody renews are stale, and with stale levels the admitter starts nothing. What nodes offer would stay there
for ever.
*/ -}}
{{- define "scavenger.uninstall.rules" -}}
- apiGroups: [""]
  resources: [configmaps]
  resourceNames: [scavenger-levels, scavenger-regulator-state, scavenger-regulator-profiles]
  verbs: [delete]
{{- end }}

{{- define "scavenger.uninstall.objects" -}}
- /api/v1/namespaces/{{ .Release.Namespace }}/configmaps
- scavenger-levels
- scavenger-regulator-state
- scavenger-regulator-profiles
- "--"
- scavenger.dev/reclaimed-cpu
- scavenger.dev/reclaimed-memory
{{- end }}

{{- define "scavenger.uninstall.args" -}}
{{- end }}
