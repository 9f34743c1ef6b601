{{- /*
Who reaches the pods of a component, and whom they reach, where the network enforces it. root: context of the chart.
Each of the others may be left out. metrics: the port of /metrics, where it is not that of a service. Lists of port
numbers: open: those that anybody reaches. reached: those of others that it reaches, beside DNS and the API server.
*/ -}}
{{- define "scavenger.networkPolicy" -}}
{{- with .root }}
{{- if .Values.networkPolicy.enabled -}}
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  {{- include "scavenger.metadata" . | nindent 2 }}
spec:
  podSelector:
    matchExpressions:
      - key: app.kubernetes.io/name
        operator: In
        values: [{{ .Chart.Name }}, {{ .Chart.Name }}-uninstall]
  policyTypes: [Ingress, Egress]
  # Probes come from the node that a pod runs on, which reaches it in any case.
  {{- if not (or .Values.networkPolicy.metricsFrom $.open .Values.networkPolicy.extraIngress) }}
  ingress: []
  {{- else }}
  ingress:
    {{- with .Values.networkPolicy.metricsFrom }}
    - ports:
        - port: {{ $.metrics | default (include "scavenger.metrics.scheme" $.root) }}
          protocol: TCP
      from:
        {{- toYaml . | nindent 8 }}
    {{- end }}
    {{- with $.open }}
    # From everywhere: the API server's address is not that of a pod, and nobody knows it beforehand.
    - ports:
        {{- include "scavenger.networkPolicy.ports" . | nindent 8 }}
    {{- end }}
    {{- with .Values.networkPolicy.extraIngress }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- end }}
  egress:
    # DNS, 5353 where its pods listen there (OpenShift).
    - ports:
        {{- range list 53 5353 }}
        - port: {{ . }}
          protocol: UDP
        - port: {{ . }}
          protocol: TCP
        {{- end }}
    # The API server{{ if $.reached }}, and what the service reads beside it{{ end }}: any address, these ports, as they are behind a Service.
    - ports:
        {{- include "scavenger.networkPolicy.ports" (concat .Values.networkPolicy.apiServerPorts ($.reached | default list)) | nindent 8 }}
    {{- with .Values.networkPolicy.extraEgress }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "scavenger.networkPolicy.ports" -}}
{{- $ports := list }}
{{- range . }}
{{- $ports = append $ports (int .) }}
{{- end }}
{{- range $i, $port := uniq $ports }}
{{- if $i }}{{ "\n" }}{{ end -}}
- port: {{ $port }}
  protocol: TCP
{{- end }}
{{- end }}

{{- /*
The ports at which settings.prometheusUrl is reached, as a JSON list; empty without it. A policy sees the port of the pods
behind a Service, which need not be that in the URL: Prometheus itself listens on 9090.
*/ -}}
{{- define "scavenger.prometheusPorts" -}}
{{- $ports := list }}
{{- with .Values.settings.prometheusUrl }}
{{- $url := urlParse . }}
{{- $port := regexFind "[0-9]+$" (regexFind ":[0-9]+$" $url.host) | default (ternary "443" "80" (eq $url.scheme "https")) }}
{{- $ports = list (int $port) 9090 }}
{{- end }}
{{- toJson $ports }}
{{- end }}
