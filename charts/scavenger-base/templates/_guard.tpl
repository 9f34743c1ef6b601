{{- /* User name of a service of ours: (list $ COMPONENT). */ -}}
{{- define "guard.user" -}}
'system:serviceaccount:{{ (index . 0).Release.Namespace }}:scavenger-{{ index . 1 }}'
{{- end }}

{{- /* Those that may write pods, as a CEL list. */ -}}
{{- define "guard.services" -}}
[{{ include "guard.user" (list . "admitter") }}, {{ include "guard.user" (list . "prioritizer") }}, {{ include "guard.user" (list . "regulator") }}]
{{- end }}

{{- /* A CEL list of texts. */ -}}
{{- define "guard.list" -}}
[{{ range $i, $text := . }}{{ if $i }}, {{ end }}{{ $text | squote }}{{ end }}]
{{- end }}

{{- /* Who deals with the owners of objects. */ -}}
{{- define "guard.controllers" -}}
{{ include "guard.list" (append .Values.guard.jobControllers "system:serviceaccount:kube-system:generic-garbage-collector") }}
{{- end }}

{{- /* Namespaces in which nothing of a scavenger job may be. */ -}}
{{- define "guard.systemNamespaces" -}}
{{ include "guard.list" (append .Values.guard.systemNamespaces .Release.Namespace | uniq) }}
{{- end }}

{{- /*
One kind of mark in CEL. has: whether there can be any. of: list or map. as: its element. where: which are marks. text: what
such a mark is called. any: whether it is asked if there are some, or what they are called.
*/ -}}
{{- define "guard.mark" -}}
{{- if .any -}}
({{ .has }} && {{ .of }}.exists({{ .as }}, {{ .where }}))
{{- else -}}
({{ .has }} ? {{ .of }}.filter({{ .as }}, {{ .where }}).map({{ .as }}, {{ .text }}) : [])
{{- end -}}
{{- end }}

{{- /* The labels that allow a namespace interactive pods, as JSON; nothing where every namespace may have some. */ -}}
{{- define "guard.interactive.labels" -}}
{{- with .Values.interactive -}}
{{- if not .everybody -}}
{{- .namespaceLabels | default (dict "scavenger.dev/interactive" "allowed") | toJson -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- /*
The marks of a scavenger job on an object, in CEL: (dict "object" NAME "metas" PATHS "specs" PATHS), paths below the object;
a list of texts, or with "any" whether there are some. Two objects have the same marks if each one's are among the
other's; so a mark names its place. Two annotations are not: an application writes them, or a user.
*/ -}}
{{- define "guard.marks" -}}
{{- $object := .object -}}
{{- $any := .any | default false -}}
{{- $parts := list -}}
{{- range .metas -}}
{{- $meta := printf "%s.%s" $object . -}}
{{- $place := trimSuffix "metadata" . | replace "spec." "" | replace "." " " -}}
{{- range $kind := list "label" "annotation" -}}
{{- $of := printf "%s.%ss" $meta $kind -}}
{{- $where := "k.startsWith('scavenger.dev/')" -}}
{{- if eq $kind "annotation" -}}
{{- $where = printf "%s && !(k in ['scavenger.dev/latency', 'scavenger.dev/last-checkpoint'])" $where -}}
{{- end -}}
{{- $parts = append $parts (include "guard.mark" (dict "any" $any "has" (printf "has(%s) && has(%s)" $meta $of) "of" $of "as" "k" "where" $where "text" (printf "'%s%s ' + k + '=' + %s[k]" $place $kind $of))) -}}
{{- end -}}
{{- $of := printf "%s.finalizers" $meta -}}
{{- $parts = append $parts (include "guard.mark" (dict "any" $any "has" (printf "has(%s) && has(%s)" $meta $of) "of" $of "as" "f" "where" "f == 'scavenger.dev/interruption-record'" "text" (printf "'%sfinalizer ' + f" $place))) -}}
{{- if eq . "metadata" -}}
{{- $of := printf "%s.ownerReferences" $meta -}}
{{- $parts = append $parts (include "guard.mark" (dict "any" $any "has" (printf "has(%s)" $of) "of" $of "as" "o" "where" "o.kind == 'ScavengerJob' && o.apiVersion.startsWith('scavenger.dev/')" "text" "'owner ScavengerJob ' + o.name + ' ' + o.uid + (has(o.controller) && o.controller ? ' as controller' : '')")) -}}
{{- end -}}
{{- end -}}
{{- range .specs -}}
{{- $spec := printf "%s.%s" $object . -}}
{{- $class := printf "has(%[1]s) && has(%[1]s.priorityClassName) && %[1]s.priorityClassName in ['scavenger-preemptible', 'scavenger-non-preemptible']" $spec -}}
{{- $parts = append $parts (ternary (printf "(%s)" $class) (printf "(%s ? ['priorityClassName ' + %s.priorityClassName] : [])" $class $spec) $any) -}}
{{- $ours := "((has(%[1]s.requests) && %[1]s.requests.exists(r, r.startsWith('scavenger.dev/'))) || (has(%[1]s.limits) && %[1]s.limits.exists(r, r.startsWith('scavenger.dev/'))))" -}}
{{- range list "containers" "initContainers" -}}
{{- $of := printf "%s.%s" $spec . -}}
{{- $parts = append $parts (include "guard.mark" (dict "any" $any "has" (printf "has(%s) && has(%s)" $spec $of) "of" $of "as" "c" "where" (printf "has(c.resources) && %s" (printf $ours "c.resources")) "text" (printf "'%s[' + c.name + '].resources scavenger.dev/*'" .))) -}}
{{- end -}}
{{- $whole := printf "has(%[1]s) && has(%[1]s.resources) && %[2]s" $spec (printf $ours (printf "%s.resources" $spec)) -}}
{{- $parts = append $parts (ternary (printf "(%s)" $whole) (printf "(%s ? ['resources scavenger.dev/*'] : [])" $whole) $any) -}}
{{- end -}}
{{- join (ternary " || " " + " $any) $parts -}}
{{- end }}

{{- /* What to do instead, as CEL: . is a CEL list of marks. Whoever asks for resources of ours wants idle room. */ -}}
{{- define "guard.remedy" -}}
({{ . }}.exists(m, m.endsWith('resources scavenger.dev/*')) ?
'submit a ScavengerJob with capacity: Reclaimed instead' : 'create a ScavengerJob instead')
{{- end }}

{{- /* Whether two maps have the same of all keys but some, as CEL: (list BEFORE AFTER WHICH), WHICH a condition on k. */ -}}
{{- define "guard.same" -}}
{{- $before := index . 0 -}}
{{- $after := index . 1 -}}
{{- $but := index . 2 -}}
{{ $after }}.all(k, {{ $but }} || (k in {{ $before }} && {{ $before }}[k] == {{ $after }}[k])) && {{ $before }}.all(k, {{ $but }} || k in {{ $after }})
{{- end }}

{{- /* Whom the guard leaves alone; never a service of ours. */ -}}
{{- define "guard.exempt" -}}
{{- with .Values.guard.exemptGroups -}}
- name: not-exempt
  expression: "request.userInfo.username in {{ include "guard.services" $ }} || !request.userInfo.groups.exists(g, g in {{ include "guard.list" . }})"
{{- end }}
{{- end }}

{{- define "guard.metadata" -}}
name: scavenger-guard-{{ index . 1 }}
labels:
  app.kubernetes.io/component: guard
  {{- include "scavenger.baseLabels" (index . 0) | nindent 2 }}
{{- end }}

{{- /* Puts a policy into force: (list $ NAME), and further lines of its spec. */ -}}
{{- define "guard.binding" -}}
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  {{- include "guard.metadata" . | nindent 2 }}
spec:
  policyName: scavenger-guard-{{ index . 1 }}
  validationActions: [Deny]
{{- with rest (rest .) }}
  {{- first . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* Whether the administrator lets the jobs of this namespace act as variables.account, as a variable. */ -}}
{{- define "guard.allowedAccount" -}}
- name: allowed
  expression: >-
    has(namespaceObject.metadata.annotations) && 'scavenger.dev/service-accounts' in namespaceObject.metadata.annotations
    && namespaceObject.metadata.annotations['scavenger.dev/service-accounts'].split(',').exists(a, a.trim() == variables.account)
{{- end }}

{{- /* Whether a source s of a projected volume is data, and not an identity of the pod. */ -}}
{{- define "guard.data" -}}
has(s.configMap) || has(s.secret) || has(s.downwardAPI) || has(s.clusterTrustBundle)
{{- end }}

{{- /* Whether the driver of a volume v gets an identity of the pod from the kubelet, for all that the guard knows. */ -}}
{{- define "guard.identifies" -}}
has(v.csi) && !(v.csi.driver in {{ include "guard.list" .Values.guard.csiDrivers }})
{{- end }}

{{- /* A rule on the account of a pod, where the administrator wants it: (list $ WHEN), WHEN a CEL condition. */ -}}
{{- define "guard.accountRule" -}}
{{- $root := index . 0 -}}
{{- if eq $root.Values.guard.accounts "Deny" -}}
- expression: >-
    {{ index . 1 }} || variables.allowed || (variables.account == 'default' &&
    !(has(variables.pod.volumes) && variables.pod.volumes.exists(v, {{ include "guard.identifies" $root }})))
  reason: Forbidden
  message: >-
    a scavenger job runs as another service account than default, or has a volume of a CSI driver beside guard.csiDrivers,
    only where the annotation scavenger.dev/service-accounts of its namespace names the account
{{- end -}}
{{- end }}

{{- /* What PodSecurity baseline lets a container add, as a CEL list. */ -}}
{{- define "guard.capabilities" -}}
{{ include "guard.list" (list "AUDIT_WRITE" "CHOWN" "DAC_OVERRIDE" "FOWNER" "FSETID" "KILL" "MKNOD" "NET_BIND_SERVICE" "SETFCAP" "SETGID" "SETPCAP" "SETUID" "SYS_CHROOT") }}
{{- end }}

{{- /* Whether a volume v is one that PodSecurity restricted allows, or baseline where the namespace has the label. */ -}}
{{- define "guard.volume" -}}
has(v.persistentVolumeClaim) || has(v.configMap) || has(v.secret) || has(v.emptyDir) || has(v.downwardAPI) ||
has(v.projected) || has(v.csi) || has(v.ephemeral) || has(v.image) || (variables.baseline && !has(v.hostPath))
{{- end }}

{{- define "guard.baseline" -}}
- name: baseline # the administrator's word for this namespace
  expression: >-
    has(namespaceObject.metadata.labels) && 'scavenger.dev/pod-security' in namespaceObject.metadata.labels &&
    namespaceObject.metadata.labels['scavenger.dev/pod-security'] == 'baseline'
{{- end }}

{{- /* Whether each of variables.containers, but those in variables.injected, confines itself as PodSecurity restricted wants, as CEL. */ -}}
{{- define "guard.unprivileged" -}}
variables.baseline || variables.containers.all(c, c.name in variables.injected || (
c.?securityContext.?allowPrivilegeEscalation == optional.of(false) &&
c.?securityContext.?runAsNonRoot.orValue(variables.nonRoot) &&
(has(c.securityContext.runAsUser) ? c.securityContext.runAsUser != 0 : !variables.root)))
{{- end }}

{{- /* Whether Jobs of the request's namespace are adopted, as CEL; for variables and validations, as match conditions do not see it. */ -}}
{{- define "guard.served" -}}
{{- if not (include "scavenger.adopt.enabled" .) -}}
false
{{- else -}}
!(request.namespace in {{ include "guard.systemNamespaces" . }}) &&
namespaceObject.metadata.?labels['scavenger.dev/adopt'].orValue('')
{{- if include "scavenger.adopt.everywhere" . }} != 'never'{{ else }} in ['labelled', 'all']{{ end }}
{{- end }}
{{- end }}

{{- /* The annotations that a user may give a Job, as a CEL list; some only to read why they are refused. */ -}}
{{- define "guard.adoptedAnnotations" -}}
{{- $names := concat (include "scavenger.adopt.annotations" . | splitList " ") (include "scavenger.adopt.laterAnnotations" . | splitList " ") -}}
[{{ range $i, $name := $names }}{{ if $i }}, {{ end }}'scavenger.dev/{{ $name }}'{{ end }}]
{{- end }}

{{- /* Those of them that a run keeps, as a CEL list. */ -}}
{{- define "guard.promises" -}}
[{{ range $i, $name := include "scavenger.adopt.promises" . | splitList " " }}{{ if $i }}, {{ end }}'scavenger.dev/{{ $name }}'{{ end }}]
{{- end }}

{{- /* What is said of all that an adopted Job cannot have, as a CEL list; as of scavenger.adopt.unsupported. */ -}}
{{- define "guard.unsupported" -}}
[
{{- range $i, $one := include "scavenger.adopt.unsupported" . | fromYamlArray }}
{{- if $i }},{{ end }}
{{ .when }} ? '{{ .field }}: {{ .because }}' : ''
{{- end }}].filter(m, m != '')
{{- end }}

{{- /* Whether a mark m is what a user may say of a Job where Jobs are adopted, as CEL: (list $ PLACE), as guard.marks has it. */ -}}
{{- define "guard.saidByUsers" -}}
{{- $root := index . 0 -}}
{{- $place := index . 1 -}}
(m.startsWith('{{ $place }}label scavenger.dev/queue=') || {{ include "guard.adoptedAnnotations" $root }}.exists(a, m.startsWith('{{ $place }}annotation ' + a + '=')))
{{- end }}

{{- /* Whether an annotation of an adopted Job says something, as CEL, and what it should be: (list NAME VALUE), NAME. */ -}}
{{- define "guard.adoptedValue" -}}
{{- $name := index . 0 -}}
{{- $value := index . 1 -}}
{{- if eq $name "checkpoint-exit-code" -}}
{{ $value }}.matches('^([1-9][0-9]?|1[0-9][0-9]|2[0-4][0-9]|25[0-5])$')
{{- else if eq $name "gang" -}}
{{ $value }} in ['true', 'false']
{{- else -}}
(size({{ $value }}) <= 32 && {{ $value }}.matches('^([0-9]+d|([0-9]+([.][0-9]+)?(h|m|s|ms))+)$') && {{ $value }}.matches('[1-9]'))
{{- end -}}
{{- end }}

{{- define "guard.adoptedValueIs" -}}
{{- if eq . "checkpoint-exit-code" -}}
must be a number from 1 to 255
{{- else if eq . "gang" -}}
must be true or false, as text
{{- else -}}
must be a duration above 0, such as 90s, 30m, 1h30m or 7d
{{- end -}}
{{- end }}

{{- /*
Whether the prioritizer changes nothing of an object but one annotation, as CEL: its figure, in a namespace whose administrator
wants it. (list NAME). Steps are those of scavenger_prioritizer.core.costs.
*/ -}}
{{- define "guard.onlyFigure" -}}
{{- $key := index . 0 -}}
namespaceObject.metadata.?labels['scavenger.dev/disruption-costs'].orValue('') == 'enabled' &&
object.metadata.?annotations[{{ $key | squote }}].orValue('').matches('^(1?[0-9]|20)$') &&
{{ include "guard.same" (list "oldObject.metadata.?annotations.orValue({})" "object.metadata.?annotations.orValue({})" (printf "k == %s" ($key | squote))) }} &&
object.metadata.?labels.orValue({}) == oldObject.metadata.?labels.orValue({}) &&
object.metadata.?finalizers.orValue([]) == oldObject.metadata.?finalizers.orValue([]) &&
object.metadata.?ownerReferences.orValue([]) == oldObject.metadata.?ownerReferences.orValue([]) &&
object.spec == oldObject.spec
{{- end }}
