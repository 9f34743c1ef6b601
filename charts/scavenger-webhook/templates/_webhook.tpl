{{- /* Not empty where certificates are somebody else's business. */ -}}
{{- define "scavenger.mounted" -}}
{{- if eq (default "" .Values.settings.certificates) "mounted" }}true{{ end -}}
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
{{- with $root.Values.admission.caBundle }}
caBundle: {{ . }}
{{- end }}
{{- end }}

{{- /* cert-manager keeps the caBundle of what carries this. */ -}}
{{- define "scavenger.injection" -}}
{{- if and (include "scavenger.mounted" .) .Values.certManager.issuerRef -}}
annotations:
  cert-manager.io/inject-ca-from: {{ .Release.Namespace }}/{{ .Chart.Name }}
{{- end -}}
{{- end }}
