{{- /* Not empty where certificates are somebody else's business. */ -}}
{{- define "scavenger.mounted" -}}
{{- if eq (include "webhook.certificates" .) "mounted" }}true{{ end -}}
{{- end }}

{{- /* How the API server reaches a path: (list $ "/path"). */ -}}
{{- define "scavenger.clientConfig" -}}
{{- $root := index . 0 -}}
{{- $path := index . 1 -}}
{{- if $root.Values.admission.url -}}
url: {{ $root.Values.admission.url }}{{ $path }}
{{- else -}}
service:
  name: {{ default (printf "%s-admission" $root.Chart.Name) $root.Values.settings.service }}
  namespace: {{ $root.Release.Namespace }}
  path: {{ $path }}
  port: 443
{{- end }}
{{- if include "webhook.makesAuthority" $root }}
caBundle: {{ include "webhook.authority.caBundle" (include "webhook.authority" $root | fromJson).data }}
{{- else if $root.Values.admission.caBundle }}
caBundle: {{ $root.Values.admission.caBundle }}
{{- end }}
{{- end }}

{{- /* The ConfigMap of the authority of client certificates. */ -}}
{{- define "webhook.clients.name" -}}
{{ .Chart.Name }}-clients-{{ .Values.admission.clientCA | trim | sha256sum | trunc 8 }}
{{- end }}

{{- /* cert-manager keeps the caBundle of what carries this. */ -}}
{{- define "scavenger.injection" -}}
{{- if and (include "scavenger.mounted" .) .Values.certManager.issuerRef -}}
annotations:
  cert-manager.io/inject-ca-from: {{ .Release.Namespace }}/{{ .Chart.Name }}
{{- end -}}
{{- end }}

{{- /*
Who sees to it that ordinary pods outrank scavenger jobs: webhook, policy, or class, where nobody needs to look at pods;
empty where nobody is to.
*/ -}}
{{- define "webhook.podsBy" -}}
{{- if not .Values.admission.pods -}}
{{- else if ne .Values.pods.defaulting "auto" -}}
{{ .Values.pods.defaulting }}
{{- else if not (include "webhook.classesLack" .) -}}
class
{{- else if .Capabilities.APIVersions.Has "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy" -}}
policy
{{- else -}}
webhook
{{- end -}}
{{- end }}

{{- /*
What is missing in the cluster for no ordinary pod to get a priority of -1000 or less; empty if nothing is. A pod has the
value of its class, or of the default one; values do not change, and the guard lets nobody make such a class. Of what
helm does not see, as with `helm template`, all is missing.

Where scavenger-base is in this release (pods.base, which the chart of all components fills in), its class and policies
count as there: at the first install helm finds none of them. That chart refuses to leave out the policies with `auto`.
*/ -}}
{{- define "webhook.classesLack" -}}
{{- $default := not (empty .Values.pods.base) -}}
{{- $low := list -}}
{{- range (lookup "scheduling.k8s.io/v1" "PriorityClass" "" "").items -}}
{{- $isLow := le (int .value) -1000 -}}
{{- if and $isLow (not (has .metadata.name (list "scavenger-preemptible" "scavenger-non-preemptible"))) -}}
{{- $low = append $low .metadata.name -}}
{{- end -}}
{{- if .globalDefault -}}
{{- if $isLow -}}{{- $low = append $low .metadata.name -}}{{- else -}}{{- $default = true -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- $guard := "scavenger-guard-priority-classes" -}}
{{- $guarded := not (empty .Values.pods.base) -}}
{{- if not $guarded -}}
{{- $policy := lookup "admissionregistration.k8s.io/v1" "ValidatingAdmissionPolicy" "" $guard -}}
{{- $binding := lookup "admissionregistration.k8s.io/v1" "ValidatingAdmissionPolicyBinding" "" $guard -}}
{{- $guarded = and $policy $binding (has "Deny" $binding.spec.validationActions) -}}
{{- end -}}
{{- if $low -}}
without PriorityClasses of -1000 or less, as {{ $low | uniq | sortAlpha | join ", " }}
{{- else if not $default -}}
a default PriorityClass above -1000
{{- else if not $guarded -}}
the policy {{ $guard }} of scavenger-base
{{- end -}}
{{- end }}

{{- /* Namespaces whose objects are left alone: those of the system and of the webhook itself, which must not lock itself out. */ -}}
{{- define "webhook.namespaceSelector" -}}
{{- $system := concat (list "kube-system" .Release.Namespace) .Values.admission.excludedNamespaces | uniq -}}
matchExpressions:
  - key: kubernetes.io/metadata.name
    operator: NotIn
    values:
      {{- toYaml $system | nindent 6 }}
{{- end }}

{{- /* Not empty where the webhook adopts Jobs: the API server has no policies that change objects. */ -}}
{{- define "webhook.adopts" -}}
{{- if not (.Capabilities.APIVersions.Has "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy") -}}
{{ include "scavenger.adopt.enabled" . }}
{{- end -}}
{{- end }}

{{- /* Pods that are created, as rules of a webhook or of a policy. */ -}}
{{- define "webhook.pods.rules" -}}
- apiGroups: [""]
  apiVersions: [v1]
  operations: [CREATE]
  resources: [pods]
  scope: Namespaced
{{- end }}

{{- define "webhook.pods.notAMirror" -}}
# A static pod's copy in the API is the kubelet's to write.
- name: not-a-mirror-pod
  expression: "!has(object.metadata.annotations) || !('kubernetes.io/config.mirror' in object.metadata.annotations)"
{{- end }}

{{- /* CEL: the pod names no class; its own class does not outrank scavenger jobs. The Priority plugin has run before. */ -}}
{{- define "webhook.pods.noClass" -}}
!has(object.spec.priorityClassName) || object.spec.priorityClassName == ''
{{- end }}

{{- define "webhook.pods.lowClass" -}}
has(object.spec.priorityClassName) && object.spec.priorityClassName != '' &&
!(object.spec.priorityClassName in ['scavenger-preemptible', 'scavenger-non-preemptible']) &&
(!has(object.spec.priority) || object.spec.priority <= -1000)
{{- end }}
