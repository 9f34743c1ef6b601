{{- /*
Before the release is deleted: stop the service, then remove what only it would have removed. Where this fails, nothing
has been deleted yet and `helm uninstall` can be repeated. root: context of the chart. Each of the others may be left out:
objects: what is deleted, YAML, in the words of files/pre_delete.py. rules: rights that this takes, YAML. args: of the
service's own program, which then runs after that one. weight: its place among the hooks of a release that has more of them.
*/ -}}
{{- define "scavenger.uninstall" -}}
{{- with .root }}
{{- if .Values.uninstall.enabled }}
{{- if .Values.rbac.create -}}
# Bound only while the release is being uninstalled.
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  {{- include "scavenger.uninstall.metadata" (list . "-10") | nindent 2 }}
rules:
  - apiGroups: [apps]
    resources: [deployments/scale]
    resourceNames: [{{ .Chart.Name }}]
    verbs: [patch] # to 0
  - apiGroups: [""]
    resources: [pods]
    verbs: [list] # until the last one has ended
  {{- with $.rules }}
  {{- . | nindent 2 }}
  {{- end }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  {{- include "scavenger.uninstall.metadata" (list . "-5") | nindent 2 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ .Chart.Name }}-uninstall
{{ include "scavenger.subjects" . }}
---
{{ end -}}
apiVersion: batch/v1
kind: Job
metadata:
  {{- include "scavenger.uninstall.metadata" (list . ($.weight | default "0")) | nindent 2 }}
spec:
  backoffLimit: 3
  activeDeadlineSeconds: {{ .Values.uninstall.timeoutSeconds }}
  template:
    metadata:
      labels:
        app.kubernetes.io/name: {{ .Chart.Name }}-uninstall # not the service's own: it waits for those to be gone
        app.kubernetes.io/part-of: scavenger-jobs
    spec:
      restartPolicy: Never
      {{- include "scavenger.placement" . | nindent 6 }}
      {{- if $.args }}
      initContainers:
        {{- include "scavenger.uninstall.preDelete" $ | nindent 8 }}
      containers:
        - name: clean
          image: {{ include "scavenger.image" . }}
          imagePullPolicy: {{ .Values.image.pullPolicy }}
          args: {{ $.args }}
          resources:
            {{- toYaml .Values.uninstall.resources | nindent 12 }}
          {{- with include "scavenger.securityContext" . }}
          {{- . | nindent 10 }}
          {{- end }}
      {{- else }}
      containers:
        {{- include "scavenger.uninstall.preDelete" $ | nindent 8 }}
      {{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- /* (list $ WEIGHT) */ -}}
{{- define "scavenger.uninstall.metadata" -}}
{{- with index . 0 -}}
name: {{ .Chart.Name }}-uninstall
namespace: {{ .Release.Namespace }}
labels:
  {{- include "scavenger.labels" . | nindent 2 }}
{{- end }}
annotations:
  helm.sh/hook: pre-delete
  helm.sh/hook-weight: {{ index . 1 | quote }}
  helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end }}

{{- /* The container that stops the service and deletes what `objects` names. */ -}}
{{- define "scavenger.uninstall.preDelete" -}}
{{- with .root -}}
- name: pre-delete
  image: {{ include "scavenger.image" . }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  command:
    - python3
    - -c
    - |
      {{- (index .Subcharts "scavenger-library").Files.Get "files/pre_delete.py" | trim | nindent 6 }}
  args:
    - {{ .Release.Namespace }}
    - {{ .Chart.Name }}
    {{- with $.objects }}
    {{- . | nindent 4 }}
    {{- end }}
  resources:
    {{- toYaml .Values.uninstall.resources | nindent 4 }}
  {{- with include "scavenger.securityContext" . }}
  {{- . | nindent 2 }}
  {{- end }}
{{- end }}
{{- end }}
