{{- define "scavenger.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/part-of: scavenger-jobs
{{- with .Values.labels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "scavenger.image" -}}
{{- $image := .Values.image -}}
{{- with $image.registry }}{{ . }}/{{ end -}}
{{ $image.repository }}
{{- if $image.digest }}@{{ $image.digest }}{{ else }}:{{ $image.tag | default .Chart.AppVersion }}{{ end -}}
{{- end }}

{{- /* One setting as an environment variable has it: lists by commas, numbers never as 1e+06. */ -}}
{{- define "scavenger.setting" -}}
{{- if kindIs "slice" . }}{{ join "," . }}{{ else if kindIs "string" . }}{{ . }}{{ else }}{{ toJson . }}{{ end -}}
{{- end }}

{{- define "scavenger.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "scavenger.securityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{- /* Where pods of the service may run, and as what. */ -}}
{{- define "scavenger.placement" -}}
serviceAccountName: {{ .Chart.Name }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  {{- include "scavenger.podSecurityContext" . | nindent 2 }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* The container that stops the service and deletes what "scavenger.uninstall.objects" names. */ -}}
{{- define "scavenger.leave" -}}
- name: leave
  image: {{ include "scavenger.image" . }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  command:
    - python3
    - -c
    - |
      {{- .Files.Get "files/leave.py" | trim | nindent 6 }}
  args:
    - {{ .Release.Namespace }}
    - {{ .Chart.Name }}
    {{- with include "scavenger.uninstall.objects" . }}
    {{- . | nindent 4 }}
    {{- end }}
  resources:
    {{- toYaml .Values.uninstall.resources | nindent 4 }}
  securityContext:
    {{- include "scavenger.securityContext" . | nindent 4 }}
{{- end }}
