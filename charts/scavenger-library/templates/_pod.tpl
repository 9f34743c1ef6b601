{{- /*
The image of the component, from its own registry, or the one for all charts, unless its repository begins with one.
Without any its name would be one of Docker Hub, where anybody may own it: that is refused, unless the content is given by
its digest, or a repository of one's own.
*/ -}}
{{- define "scavenger.image" -}}
{{- $image := .Values.image -}}
{{- $own := printf "scavenger/%s" (trimPrefix "scavenger-" .Chart.Name) -}}
{{- $registry := $image.registry -}}
{{- if not (or $registry (regexMatch "^([^/]*[.:][^/]*|localhost)/" $image.repository)) -}}
{{- $registry = ((.Values.global).image).registry -}}
{{- end -}}
{{- if and (eq $image.repository $own) (not (or $registry $image.digest)) -}}
{{- fail (printf "image.registry is not set: %s without one is a name on Docker Hub of another project. Build the image with services/build-image.sh, and push it. Set your registry for all charts by --set global.image.registry=registry.example.com, or for this chart by --set image.registry=registry.example.com (localhost, where the image is loaded into every node)" $own) -}}
{{- end -}}
{{- with $registry }}{{ . }}/{{ end -}}
{{ $image.repository }}
{{- $released := ternary (index .Chart.Annotations "scavenger.dev/image-digest") "" (and (eq $image.repository $own) (not $image.tag)) -}}
{{- if or $image.digest $released }}@{{ $image.digest | default $released }}{{ else }}:{{ $image.tag | default .Chart.AppVersion }}{{ end -}}
{{- end }}

{{- /* The architecture of nodes that the image of a release is for, where it is for one only. */ -}}
{{- define "scavenger.architecture" -}}
{{- $for := index .Chart.Annotations "scavenger.dev/image-architectures" -}}
{{- if not (or (contains "," $for) .Values.image.digest .Values.image.tag) }}{{ $for }}{{ end -}}
{{- end }}

{{- /* Where pods of the component may run, and as what. */ -}}
{{- define "scavenger.placement" -}}
serviceAccountName: {{ .Chart.Name }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.podSecurityContext }}
securityContext:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- $nodes := dict }}
{{- with include "scavenger.architecture" . }}
{{- $nodes = dict "kubernetes.io/arch" . }}
{{- end }}
{{- with merge dict .Values.nodeSelector $nodes }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* What a container of the component may do, as a field of it; nothing where that is left to the cluster. */ -}}
{{- define "scavenger.securityContext" -}}
{{- with .Values.securityContext -}}
securityContext:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
