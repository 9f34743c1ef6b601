{{- /* The Service of /metrics. root: context of the chart. scheme: http, where it is left out, or https. */ -}}
{{- define "scavenger.metricsService" -}}
{{- $scheme := .scheme | default "http" }}
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
{{- $scheme := .scheme | default "http" }}
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
      {{- if eq $scheme "https" }}
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
