{{- /* Who may look: loopback or token. */ -}}
{{- define "board.access" -}}
{{- .Values.settings.access | default "loopback" -}}
{{- end }}

{{- define "board.port" -}}
{{- .Values.settings.port | default 8090 -}}
{{- end }}

{{- /* The folder of the certificate, where the chart mounts one. */ -}}
{{- define "board.tls" -}}
{{- if .Values.page.tls.secretName -}}
/etc/scavenger/board-tls
{{- else if and (eq (include "board.access" .) "token") (not .Values.settings.tlsFolder) -}}
{{- fail "settings.access=token needs page.tls.secretName: tokens would be sent unencrypted" -}}
{{- end -}}
{{- end }}
