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
{{- $ours := "(has(%[1]s.requests) && %[1]s.requests.exists(r, r.startsWith('scavenger.dev/'))) || (has(%[1]s.limits) && %[1]s.limits.exists(r, r.startsWith('scavenger.dev/')))" -}}
{{- range list "containers" "initContainers" -}}
{{- $parts = append $parts (printf "(has(%[1]s) && has(%[1]s.%[2]s) ? %[1]s.%[2]s.filter(c, has(c.resources) && (%[3]s)).map(c, '%[2]s[' + c.name + '].resources scavenger.dev/*') : [])" $path . (printf $ours "c.resources")) -}}
{{- end -}}
{{- $parts = append $parts (printf "(has(%[1]s) && has(%[1]s.resources) && (%[2]s) ? ['resources scavenger.dev/*'] : [])" $path (printf $ours (printf "%s.resources" $path))) -}}
{{- end -}}
{{- join " + " $parts -}}
{{- end }}

{{- /* What to do instead, as CEL: . is a CEL list of marks. Whoever asks for resources of ours wants idle room. */ -}}
{{- define "guard.remedy" -}}
({{ . }}.exists(m, m.endsWith('resources scavenger.dev/*')) ?
'submit a ScavengerJob with capacity: Reclaimed instead' : 'create a ScavengerJob instead')
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
