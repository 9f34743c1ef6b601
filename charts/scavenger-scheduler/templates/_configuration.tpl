{{- /* What kube-scheduler reads at its start. */ -}}
{{- define "scheduler.configuration" -}}
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection:
  qps: {{ .Values.clientConnection.qps }}
  burst: {{ .Values.clientConnection.burst }}
leaderElection:
  leaderElect: true
  resourceName: {{ .Chart.Name }}
  resourceNamespace: {{ .Release.Namespace }}
profiles:
  - schedulerName: {{ .Values.schedulerName }}
    plugins:
      multiPoint: # not postFilter alone: while its victims are being removed a pod is kept out of the queue by PreEnqueue
        enabled:
          - name: ScavengerPreemption
        disabled:
          - name: DefaultPreemption
    pluginConfig:
      - name: ScavengerPreemption
        args:
          {{- toYaml .Values.plugin | nindent 10 }}
{{- end }}
