{{- define "scavenger.serviceAccount" -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  {{- include "scavenger.metadata" . | nindent 2 }}
  {{- with .Values.serviceAccount.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}

{{- /*
Gives the component's ServiceAccount a ClusterRole everywhere. root: context of the chart. role: where it is not the
component's own, one of the cluster's `system:` roles.
*/ -}}
{{- define "scavenger.clusterRoleBinding" -}}
{{- with .root -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ .Chart.Name }}{{ with $.role }}:{{ trimPrefix "system:" . }}{{ end }}
  labels:
    {{- include "scavenger.labels" . | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {{ $.role | default .Chart.Name }}
{{ include "scavenger.subjects" . }}
{{- end }}
{{- end }}

{{- /* Gives it the Role of its own name, in the namespace of the release. */ -}}
{{- define "scavenger.roleBinding" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  {{- include "scavenger.metadata" . | nindent 2 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ .Chart.Name }}
{{ include "scavenger.subjects" . }}
{{- end }}

{{- define "scavenger.subjects" -}}
subjects:
  - kind: ServiceAccount
    name: {{ .Chart.Name }}
    namespace: {{ .Release.Namespace }}
{{- end }}

{{- /* Rules for the Lease by which one replica leads. */ -}}
{{- define "scavenger.leaseRules" -}}
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [{{ .Chart.Name }}]
  verbs: [get, update]
{{- end }}

{{- /* Rule for the Leases of the named components, whose marks are removed while nobody renews these. */ -}}
{{- define "scavenger.watchedLeases" -}}
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [{{ join ", " . }}]
  verbs: [get]
{{- end }}

{{- /* Puts a ValidatingAdmissionPolicy into force: (list $ NAME). */ -}}
{{- define "scavenger.policyBinding" -}}
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: {{ index . 1 }}
  labels:
    {{- include "scavenger.labels" (index . 0) | nindent 4 }}
spec:
  policyName: {{ index . 1 }}
  validationActions: [Deny]
{{- end }}
