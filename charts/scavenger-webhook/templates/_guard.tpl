{{- /*
The marks of a scavenger job on an object, as a CEL list of texts: (dict "object" NAME "metas" PATHS "specs" PATHS), paths
below the object. Two objects have the same marks if each one's are among the other's; so a mark names its place.
*/ -}}
{{- define "guard.marks" -}}
{{- $object := .object -}}
{{- $parts := list -}}
{{- range .metas -}}
{{- $path := printf "%s.%s" $object . -}}
{{- $place := trimSuffix "metadata" . | replace "spec." "" | replace "." " " -}}
{{- $parts = append $parts (printf "(has(%[1]s) && has(%[1]s.labels) ? %[1]s.labels.filter(k, k.startsWith('scavenger.dev/')).map(k, '%[2]slabel ' + k + '=' + %[1]s.labels[k]) : [])" $path $place) -}}
{{- $parts = append $parts (printf "(has(%[1]s) && has(%[1]s.finalizers) ? %[1]s.finalizers.filter(f, f == 'scavenger.dev/interruption-record').map(f, '%[2]sfinalizer ' + f) : [])" $path $place) -}}
{{- end -}}
{{- range .specs -}}
{{- $path := printf "%s.%s" $object . -}}
{{- $parts = append $parts (printf "(has(%[1]s) && has(%[1]s.priorityClassName) && %[1]s.priorityClassName in ['scavenger-preemptible', 'scavenger-non-preemptible'] ? ['priorityClassName ' + %[1]s.priorityClassName] : [])" $path) -}}
{{- range list "containers" "initContainers" -}}
{{- $parts = append $parts (printf "(has(%[1]s) && has(%[1]s.%[2]s) && %[1]s.%[2]s.exists(c, has(c.resources) && ((has(c.resources.requests) && c.resources.requests.exists(r, r.startsWith('scavenger.dev/'))) || (has(c.resources.limits) && c.resources.limits.exists(r, r.startsWith('scavenger.dev/'))))) ? ['resources scavenger.dev/*'] : [])" $path .) -}}
{{- end -}}
{{- end -}}
{{- join " + " $parts -}}
{{- end }}

{{- /* Users of our services. */ -}}
{{- define "guard.user" -}}
system:serviceaccount:{{ (index . 0).Release.Namespace }}:scavenger-{{ index . 1 }}
{{- end }}

{{- define "guard.exempt" -}}
{{- with .Values.guard.exemptGroups -}}
- name: not-exempt
  expression: "!request.userInfo.groups.exists(g, g in [{{ range $i, $g := . }}{{ if $i }}, {{ end }}{{ $g | squote }}{{ end }}])"
{{- end -}}
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
