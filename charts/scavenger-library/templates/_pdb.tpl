{{- define "scavenger.pdb" -}}
{{- if .Values.podDisruptionBudget.enabled -}}
# `maxUnavailable`, so that a single replica never holds up a drain.
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  {{- include "scavenger.metadata" . | nindent 2 }}
spec:
  maxUnavailable: {{ .Values.podDisruptionBudget.maxUnavailable }}
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      app.kubernetes.io/name: {{ .Chart.Name }}
{{- end }}
{{- end }}
