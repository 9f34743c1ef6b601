{{- /*
Which batch/v1 Jobs are adopted, once for all that asks: the policy that adopts (scavenger-admitter), the webhook in its
place (scavenger-webhook), and the policies that refuse and warn (scavenger-base). docs/designs/0032-adopted-jobs.md.
*/ -}}

{{- /* Not empty where Jobs are adopted; where they are, with unlabelled namespaces. A release from before has neither value. */ -}}
{{- define "scavenger.adopt.enabled" -}}
{{- if ((.Values.global).adopt).enabled }}true{{ end -}}
{{- end }}

{{- define "scavenger.adopt.everywhere" -}}
{{- if ((.Values.global).adopt).everywhere }}true{{ end -}}
{{- end }}

{{- /* What a user may say of a Job beside its queue: annotations of scavenger.dev, without the prefix. */ -}}
{{- define "scavenger.adopt.annotations" -}}
{{ include "scavenger.adopt.promises" . }} gang
{{- end }}

{{- /* Those of them that a run keeps as they are when it starts, so that users may change them between runs. */ -}}
{{- define "scavenger.adopt.promises" -}}
interruption-after checkpoint-exit-code
{{- end }}

{{- /* Annotations of scavenger.dev that a Job cannot have yet, if it is to be adopted. */ -}}
{{- define "scavenger.adopt.laterAnnotations" -}}
snapshot minimum-run
{{- end }}

{{- /*
What adopted Jobs cannot have, as YAML: a list of field, when (CEL, true where the Job has it) and because, the end of what
is said. (dict "job" PATH "place" PREFIX): the Job or jobTemplate in CEL, and what stands before its fields in a message.
*/ -}}
{{- define "scavenger.adopt.unsupported" -}}
{{- $spec := printf "dyn(%s.spec)" .job -}}
{{- $pod := printf "dyn(%s.spec.template.spec)" .job -}}
{{- $leave := "or remove the label scavenger.dev/queue to run a regular Job" -}}
- field: {{ .place }}spec.backoffLimitPerIndex
  when: {{ $spec }}.?backoffLimitPerIndex.orValue(0) > 15
  because: at most 15 for scavenger jobs; write 15 or leave it out, {{ $leave }}
- field: {{ .place }}spec.podFailurePolicy.rules[].onPodConditions
  when: >-
    {{ $spec }}.?podFailurePolicy.rules.orValue([]).exists(r, r.action == 'FailJob' &&
    has(r.onPodConditions) && r.onPodConditions.exists(c, c.type == 'DisruptionTarget'))
  because: >-
    the policy fails the Job when it is disrupted, and scavenger jobs are; leave the rule out, {{ $leave }}
{{- range include "scavenger.adopt.laterAnnotations" . | splitList " " }}
- field: {{ $.place }}metadata.annotations[scavenger.dev/{{ . }}]
  when: {{ $.job }}.?metadata.annotations['scavenger.dev/{{ . }}'].hasValue()
  because: adopted Jobs do not honour it yet; leave it out, or create a ScavengerJob instead
{{- end }}
{{- $gang := printf "%s.?metadata.annotations['scavenger.dev/gang'].orValue('') == 'true'" .job }}
{{- $alone := "or leave out the annotation scavenger.dev/gang to run the pods one by one" }}
- field: {{ .place }}metadata.annotations[scavenger.dev/gang]
  when: >-
    {{ $gang }} && !({{ $spec }}.?completionMode.orValue('') == 'Indexed' &&
    {{ $spec }}.?completions.orValue(0) > 1 && {{ $spec }}.?completions.orValue(0) <= 10000 &&
    {{ $spec }}.?parallelism.orValue(1) == {{ $spec }}.?completions.orValue(0))
  because: a gang is an Indexed Job with completions = parallelism, 2 to 10000; change them, or leave the annotation out
{{- range list "backoffLimitPerIndex" "successPolicy" }}
- field: {{ $.place }}spec.{{ . }}
  when: {{ $gang }} && {{ $spec }}.?{{ . }}.hasValue()
  because: a gang succeeds and fails as a whole; leave it out, {{ $alone }}
{{- end }}
- field: {{ .place }}spec.template.spec.restartPolicy
  when: {{ $gang }} && {{ $pod }}.?restartPolicy.orValue('') != 'Never'
  because: a gang starts again as a whole; write Never, {{ $alone }}
- field: {{ .place }}spec.manualSelector
  when: {{ $spec }}.?manualSelector.orValue(false)
  because: pods of a selector of your own cannot be told apart; leave it out, {{ $leave }}
- field: {{ .place }}spec.scheduling
  when: {{ $spec }}.?scheduling.hasValue()
  because: admission places the pods; leave it out, {{ $leave }}
{{- range list "nodeName" "schedulingGates" "resourceClaims" }}
- field: {{ $.place }}spec.template.spec.{{ . }}
  when: {{ $pod }}.?{{ . }}.hasValue()
  because: admission places the pods; leave it out, {{ $leave }}
{{- end }}
{{- if not .place }}{{- /* A CronJob's Jobs get their defaults when they are created (scavenger-base, default-resources.yaml). */ -}}
{{- range $resource, $size := dict "cpu" "500m" "memory" "1Gi" }}
- field: spec.template.spec.containers[0].resources
  when: >-
    !([{{ $pod }}] + {{ $pod }}.containers + {{ $pod }}.?initContainers.orValue([])).exists(c,
    c.?resources.requests['{{ $resource }}'].hasValue() || c.?resources.limits['{{ $resource }}'].hasValue())
  because: >-
    {{ $resource }} is mandatory; add it to resources.requests of a container, as {{ $resource }} {{ $size }}, or ask an administrator for
    the annotation scavenger.dev/default-{{ $resource }} of the namespace
{{- end }}
{{- end }}
{{- range list "completions" "parallelism" }}
- field: {{ $.place }}spec.{{ . }}
  when: {{ $spec }}.?{{ . }}.orValue(0) > 100000
  because: at most 100000 for scavenger jobs; split the Job, {{ $leave }}
{{- end }}
{{- end }}

{{- /* Whether there is something of that, as CEL. */ -}}
{{- define "scavenger.adopt.isUnsupported" -}}
{{- $parts := list -}}
{{- range include "scavenger.adopt.unsupported" . | fromYamlArray -}}
{{- $parts = append $parts (printf "(%s)" .when) -}}
{{- end -}}
{{- join " || " $parts -}}
{{- end }}

{{- /* Whether the Job `object` belongs to somebody else or stands outside the queue, and no label asks for adoption, as CEL. */ -}}
{{- define "scavenger.adopt.isSpecial" -}}
object.?metadata.annotations['helm.sh/hook'].hasValue() ||
object.?metadata.annotations['argocd.argoproj.io/hook'].hasValue() ||
object.?metadata.ownerReferences.orValue([]).exists(o, ['jobset.x-k8s.io/', 'kubeflow.org/',
'trainer.kubeflow.org/'].exists(g, o.apiVersion.startsWith(g))) ||
object.spec.template.spec.?priorityClassName.orValue('').startsWith('system-')
{{- end }}

{{- /*
Match conditions of what adopts a new Job. They are total: none can fail. They do not see the namespace, which selectors
do. Whoever asked by the label is adopted or refused; who did not, and has what is unsupported, gets a regular Job.
*/ -}}
{{- define "scavenger.adopt.conditions" -}}
- name: free # kubernetes.io/job-controller is a way to opt out
  expression: "object.spec.?managedBy.orValue('') == ''"
- name: not-never
  expression: "object.?metadata.labels['scavenger.dev/adopt'].orValue('') != 'never'"
- name: not-of-kueue
  expression: "!object.?metadata.labels['kueue.x-k8s.io/queue-name'].hasValue()"
- name: not-ours
  expression: >-
    !object.?metadata.ownerReferences.orValue([]).exists(o, o.apiVersion.startsWith('scavenger.dev/')) &&
    !object.?metadata.labels['scavenger.dev/job'].hasValue()
- name: asked-or-plain
  expression: >-
    object.?metadata.labels['scavenger.dev/queue'].hasValue() || !(
    {{ include "scavenger.adopt.isSpecial" . | nindent 4 | trim }} ||
    {{ include "scavenger.adopt.isUnsupported" (dict "job" "object" "place" "") }})
{{- end }}

{{- /* Requests that may have to be adopted. */ -}}
{{- define "scavenger.adopt.rules" -}}
- apiGroups: [batch]
  apiVersions: [v1]
  operations: [CREATE]
  resources: [jobs]
  scope: Namespaced
{{- end }}

{{- /* Namespaces that are never served, whatever their labels say. */ -}}
{{- define "scavenger.adopt.notOfTheSystem" -}}
- key: kubernetes.io/metadata.name
  operator: NotIn
  values: [kube-system, kube-public, kube-node-lease, {{ .Release.Namespace }}]
{{- end }}

{{- /*
Where Jobs are adopted: (list $ WHICH), `labelled`: those that ask, in all served namespaces; `all`: those that do not ask, in
namespaces that are served as a whole. No Job is in both.
*/ -}}
{{- define "scavenger.adopt.selectors" -}}
{{- $root := index . 0 -}}
{{- $labelled := eq (index . 1) "labelled" -}}
namespaceSelector:
  matchExpressions:
    {{- include "scavenger.adopt.notOfTheSystem" $root | nindent 4 }}
    {{- if not $labelled }}
    - {key: scavenger.dev/adopt, operator: In, values: [all]}
    {{- else if include "scavenger.adopt.everywhere" $root }}
    - {key: scavenger.dev/adopt, operator: NotIn, values: [never]}
    {{- else }}
    - {key: scavenger.dev/adopt, operator: In, values: [labelled, all]}
    {{- end }}
objectSelector:
  matchExpressions:
    - {key: scavenger.dev/queue, operator: {{ ternary "Exists" "DoesNotExist" $labelled }}}
{{- end }}
