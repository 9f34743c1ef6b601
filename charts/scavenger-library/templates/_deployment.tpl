{{- /*
The Deployment of a component. root: context of the chart. container, volumeMounts, volumes, podAnnotations: YAML; all but
the first may be left out. everyReplicaServes: none of them leads.
*/ -}}
{{- define "scavenger.deployment" -}}
{{- include "scavenger.refuseMoved" .root -}}
{{- with .root -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  {{- include "scavenger.metadata" . | nindent 2 }}
spec:
  replicas: {{ .Values.replicas }}{{ if not $.everyReplicaServes }} # one leads, the others take over{{ end }}
  revisionHistoryLimit: {{ .Values.revisionHistoryLimit }}
  selector:
    matchLabels:
      app.kubernetes.io/name: {{ .Chart.Name }}
  template:
    metadata:
      labels:
        {{- include "scavenger.labels" . | nindent 8 }}
        {{- with .Values.podLabels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- if or $.podAnnotations .Values.podAnnotations }}
      annotations:
        {{- with $.podAnnotations }}
        {{- . | nindent 8 }}
        {{- end }}
        {{- with .Values.podAnnotations }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- end }}
    spec:
      {{- include "scavenger.placement" . | nindent 6 }}
      terminationGracePeriodSeconds: {{ .Values.terminationGracePeriodSeconds }}
      {{- with .Values.affinity }}
      affinity:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      topologySpreadConstraints:
        {{- if .Values.topologySpreadConstraints }}
        {{- toYaml .Values.topologySpreadConstraints | nindent 8 }}
        {{- else }}
        - maxSkew: 1
          topologyKey: {{ .Values.topologySpread.topologyKey }}
          whenUnsatisfiable: {{ .Values.topologySpread.whenUnsatisfiable }}
          labelSelector:
            matchLabels:
              app.kubernetes.io/name: {{ .Chart.Name }}
        {{- end }}
      containers:
        - name: {{ trimPrefix "scavenger-" .Chart.Name }}
          image: {{ include "scavenger.image" . }}
          imagePullPolicy: {{ .Values.image.pullPolicy }}
          {{- $.container | nindent 10 }}
          resources:
            {{- toYaml .Values.resources | nindent 12 }}
          {{- with include "scavenger.securityContext" . }}
          {{- . | nindent 10 }}
          {{- end }}
          {{- with $.volumeMounts }}
          volumeMounts:
            {{- . | nindent 12 }}
          {{- end }}
      {{- with $.volumes }}
      volumes:
        {{- . | nindent 8 }}
      {{- end }}
{{- end }}
{{- end }}

{{- /*
The Deployment of a Python service, its settings in the environment. root, everyReplicaServes: as above. settings: in the
place of those in the values. volumes, volumeMounts: lists, beside the extra ones in the values.
*/ -}}
{{- define "scavenger.service.deployment" -}}
{{- $values := .root.Values }}
{{- $volumes := concat $values.extraVolumes (.volumes | default list) }}
{{- $mounts := concat $values.extraVolumeMounts (.volumeMounts | default list) }}
{{- with include "scavenger.metrics.secret" .root }}
{{- $files := list (dict "key" "tls.crt" "path" "tls.crt") (dict "key" "tls.key" "path" "tls.key") }}
{{- $volumes = append $volumes (dict "name" "metrics-tls" "secret" (dict "secretName" . "items" $files)) }}
{{- $folder := include "scavenger.metrics.folder" nil }}
{{- $mounts = append $mounts (dict "name" "metrics-tls" "mountPath" $folder "readOnly" true) }}
{{- end }}
{{- $parts := dict "root" .root "everyReplicaServes" .everyReplicaServes }}
{{- $_ := set $parts "container" (include "scavenger.service.container" .) }}
{{- with $volumes }}{{ $_ := set $parts "volumes" (toYaml .) }}{{ end }}
{{- with $mounts }}{{ $_ := set $parts "volumeMounts" (toYaml .) }}{{ end }}
{{- include "scavenger.deployment" $parts }}
{{- end }}

{{- /* The namespace of the system, where its ConfigMaps are; as an entry of `env`. */ -}}
{{- define "scavenger.namespace" -}}
- name: SCAVENGER_NAMESPACE
  valueFrom:
    fieldRef:
      apiVersion: v1
      fieldPath: metadata.namespace
{{- end }}

{{- define "scavenger.service.container" -}}
env:
  {{- include "scavenger.namespace" nil | nindent 2 }}
  {{- range $name, $value := .settings | default .root.Values.settings }}
  - name: SCAVENGER_{{ $name | snakecase | upper }}
    value: {{ include "scavenger.setting" $value | quote }}
  {{- end }}
  {{- if include "scavenger.metrics.secret" .root }}
  - name: SCAVENGER_METRICS_TLS_FOLDER
    value: {{ include "scavenger.metrics.folder" nil }}
  - name: SCAVENGER_METRICS_PORT
    value: {{ .root.Values.metrics.port | quote }}
  - name: SCAVENGER_METRICS_AUTH
    value: {{ .root.Values.metrics.auth }}
  {{- end }}
  {{- with .root.Values.extraEnv }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
ports:
  - name: http
    containerPort: 8080
  {{- if include "scavenger.metrics.secret" .root }}
  - name: https
    containerPort: {{ .root.Values.metrics.port }}
  {{- end }}
startupProbe: # two minutes, on a node that is busy with other starts
  httpGet:
    path: /healthz
    port: http
  periodSeconds: 2
  failureThreshold: 60
livenessProbe: # a busy node is slow to answer, and a restart costs the caches
  httpGet:
    path: /healthz
    port: http
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 3
readinessProbe:
  httpGet:
    path: /readyz
    port: http
  periodSeconds: 5
{{- end }}

{{- /* One setting as an environment variable has it: lists by commas, numbers never as 1e+06. */ -}}
{{- define "scavenger.setting" -}}
{{- if kindIs "slice" . }}{{ join "," . }}{{ else if kindIs "string" . }}{{ . }}{{ else }}{{ toJson . }}{{ end -}}
{{- end }}
