{{- /*
The marks of a scavenger job on an object, as a CEL list of texts: (dict "meta" PATH "spec" PATH). Two objects have the
same marks if each one's are among the other's. `meta` and `spec` are CEL paths; either may be left out.
*/ -}}
{{- define "guard.marks" -}}
{{- $parts := list -}}
{{- range .metas -}}
{{- $parts = append $parts (printf "(has(%[1]s) && has(%[1]s.labels) ? %[1]s.labels.filter(k, k.startsWith('scavenger.dev/')).map(k, 'label ' + k + '=' + %[1]s.labels[k]) : [])" .) -}}
{{- $parts = append $parts (printf "(has(%[1]s) && has(%[1]s.finalizers) ? %[1]s.finalizers.filter(f, f == 'scavenger.dev/interruption-record').map(f, 'finalizer ' + f) : [])" .) -}}
{{- end -}}
{{- range .specs -}}
{{- $parts = append $parts (printf "(has(%[1]s) && has(%[1]s.priorityClassName) && %[1]s.priorityClassName in ['scavenger-preemptible', 'scavenger-non-preemptible'] ? ['priorityClassName ' + %[1]s.priorityClassName] : [])" .) -}}
{{- $parts = append $parts (printf "(has(%[1]s) && has(%[1]s.containers) && %[1]s.containers.exists(c, has(c.resources) && ((has(c.resources.requests) && c.resources.requests.exists(r, r.startsWith('scavenger.dev/'))) || (has(c.resources.limits) && c.resources.limits.exists(r, r.startsWith('scavenger.dev/'))))) ? ['resources scavenger.dev/*'] : [])" .) -}}
{{- end -}}
{{- join " + " $parts -}}
{{- end }}

{{- /* Users of our services. */ -}}
{{- define "guard.user" -}}
system:serviceaccount:{{ (index . 0).Release.Namespace }}:scavenger-{{ index . 1 }}
{{- end }}

{{- define "guard.exempt" -}}
{{- with .Values.guard.exemptGroups }}
- name: not-exempt
  expression: "!request.userInfo.groups.exists(g, g in [{{ range $i, $g := . }}{{ if $i }}, {{ end }}{{ $g | squote }}{{ end }}])"
{{- end }}
{{- end }}

{{- define "guard.binding" -}}
{{- $root := index . 0 -}}
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: {{ index . 1 }}
  labels:
    {{- include "scavenger.labels" $root | nindent 4 }}
spec:
  policyName: {{ index . 1 }}
  validationActions: [Deny]
{{- end }}
