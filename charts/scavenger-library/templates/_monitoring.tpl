{{- /*
The Secret with the certificate for the /metrics of a Python service; empty where that is in clear, as it is of the
scheduler, whose own port has TLS anyway.
*/ -}}
{{- define "scavenger.metrics.secret" -}}
{{- $metrics := .Values.metrics | default dict -}}
{{- $secret := ($metrics.tls | default dict).secretName -}}
{{- if and (not $secret) (eq ($metrics.auth | default "none") "token") -}}
{{- fail "metrics.auth=token needs metrics.tls.secretName: tokens would be sent unencrypted" -}}
{{- end -}}
{{- $secret | default "" -}}
{{- end }}

{{- define "scavenger.metrics.folder" -}}
/etc/scavenger/metrics-tls
{{- end }}

{{- /* How /metrics of a Python service is reached, and the name of the container's port. */ -}}
{{- define "scavenger.metrics.scheme" -}}
{{- if include "scavenger.metrics.secret" . }}https{{ else }}http{{ end -}}
{{- end }}

{{- /* The right to ask the API server whose a token is, and what that user may: what the cluster's own role is for. */ -}}
{{- define "scavenger.metrics.rbac" -}}
{{- if and (include "scavenger.metrics.secret" .) (eq .Values.metrics.auth "token") }}
---
# To ask who reads /metrics.
{{ include "scavenger.clusterRoleBinding" (dict "root" . "role" "system:auth-delegator") }}
{{- end }}
{{- end }}

{{- /* The Service of /metrics. root: context of the chart. scheme: http or https, where it is not that of a service. */ -}}
{{- define "scavenger.metricsService" -}}
{{- $scheme := .scheme | default (include "scavenger.metrics.scheme" .root) }}
{{- with .root -}}
# For Prometheus: /metrics {{ ternary "over HTTPS" "beside the probes" (eq $scheme "https") }}.
apiVersion: v1
kind: Service
metadata:
  {{- include "scavenger.metadata" . | nindent 2 }}
  {{- with .Values.service.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  selector:
    app.kubernetes.io/name: {{ .Chart.Name }}
  ports:
    - name: {{ $scheme }}-metrics
      port: {{ .Values.service.port }}
      targetPort: {{ $scheme }}
{{- end }}
{{- end }}

{{- /* What tells the Prometheus operator of it. root, scheme: as above. */ -}}
{{- define "scavenger.serviceMonitor" -}}
{{- $scheme := .scheme | default (include "scavenger.metrics.scheme" .root) }}
{{- $secret := include "scavenger.metrics.secret" .root }}
{{- with .root }}
{{- if .Values.serviceMonitor.enabled -}}
apiVersion: monitoring.coreos.com/v1
kind: ServiceMonitor
metadata:
  {{- include "scavenger.metadata" . | nindent 2 }}
    {{- with .Values.serviceMonitor.labels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  selector:
    matchLabels:
      app.kubernetes.io/name: {{ .Chart.Name }}
  endpoints:
    - port: {{ $scheme }}-metrics
      {{- if $secret }}
      scheme: https
      {{- if eq .Values.metrics.auth "token" }}
      {{- if .Values.metrics.tokenSecret }}
      authorization:
        credentials:
          name: {{ .Values.metrics.tokenSecret }}
          key: token
      {{- else }}
      bearerTokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token
      {{- end }}
      {{- end }}
      tlsConfig:
        ca:
          secret:
            name: {{ $secret }}
            key: ca.crt
        serverName: {{ .Chart.Name }}.{{ .Release.Namespace }}.svc
      {{- else if eq $scheme "https" }}
      scheme: https
      bearerTokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token
      tlsConfig:
        insecureSkipVerify: true # the scheduler makes its certificate itself
      {{- end }}
      interval: {{ .Values.serviceMonitor.interval }}
      {{- with .Values.serviceMonitor.scrapeTimeout }}
      scrapeTimeout: {{ . }}
      {{- end }}
{{- end }}
{{- end }}
{{- end }}
