{{- /*
The certificate authority of the chart: made once, found again by every upgrade, replaced in three steps
(authority.rotation; docs/webhook.md). Whoever installs the chart writes it; the webhook reads it.
*/ -}}

{{- /* Who keeps the certificates: authority or mounted. */ -}}
{{- define "webhook.certificates" -}}
{{- default "authority" .Values.settings.certificates -}}
{{- end }}

{{- /* Not empty where the chart makes the authority, and none was given with its caBundle. */ -}}
{{- define "webhook.makesAuthority" -}}
{{- if and (eq (include "webhook.certificates" .) "authority") (not .Values.admission.caBundle) }}true{{ end -}}
{{- end }}

{{- define "webhook.authority.secretName" -}}
{{ .Chart.Name }}-authority
{{- end }}

{{- /* JSON: data and annotations of its Secret. Kept in .Values, as keys are random and several templates ask. */ -}}
{{- define "webhook.authority" -}}
{{- if not (hasKey .Values "madeAuthority") }}
{{- $_ := set .Values "madeAuthority" (include "webhook.authority.after" . | fromJson) }}
{{- end }}
{{- toJson .Values.madeAuthority }}
{{- end }}

{{- /* base64: all authorities that are trusted, the one that signs first. Of the data of its Secret. */ -}}
{{- define "webhook.authority.caBundle" -}}
{{- $pem := "" }}
{{- range $key := list "ca.crt" "next-ca.crt" "previous-ca.crt" }}
{{- $pem = printf "%s%s" $pem (get $ $key | b64dec) }}
{{- end }}
{{- b64enc $pem }}
{{- end }}

{{- /* JSON: a new certificate and its key, base64. */ -}}
{{- define "webhook.authority.new" -}}
{{- $name := printf "%s-ca-%s" .Chart.Name (randAlphaNum 8 | lower) }}
{{- $made := genCAWithKey $name (int .Values.authority.validityDays) (genPrivateKey "ecdsa") }}
{{- dict "crt" (b64enc $made.Cert) "key" (b64enc $made.Key) | toJson }}
{{- end }}

{{- /* JSON: what is to be in the Secret, from what is there and the step that is asked for. */ -}}
{{- define "webhook.authority.after" -}}
{{- if not (lookup "v1" "Namespace" "" "kube-system") }}
{{- fail (include "webhook.authority.noCluster" .) }}
{{- end }}
{{- $found := lookup "v1" "Secret" .Release.Namespace (include "webhook.authority.secretName" .) | default dict }}
{{- $data := dict }}
{{- range $key, $value := $found.data }}
{{- $_ := set $data $key $value }}
{{- end }}
{{- $at := dig "metadata" "annotations" "scavenger.dev/rotation-step-at" "" $found }}
{{- $now := now | unixEpoch }}
{{- $step := .Values.authority.rotation }}
{{- if not (and (get $data "ca.crt") (get $data "ca.key")) }}
{{- $new := include "webhook.authority.new" . | fromJson }}
{{- $data = dict "ca.crt" $new.crt "ca.key" $new.key }}
{{- /* Of a release that had its webhook make the authority: its replicas serve until they are replaced. */ -}}
{{- with dig "data" "ca.crt" "" (lookup "v1" "Secret" .Release.Namespace (printf "%s-tls" .Chart.Name) | default dict) }}
{{- $_ := set $data "previous-ca.crt" . }}
{{- $at = $now }}
{{- end }}
{{- else if and (eq $step "prepare") (not (get $data "next-ca.crt")) }}
{{- $new := include "webhook.authority.new" . | fromJson }}
{{- $_ := set $data "next-ca.crt" $new.crt }}
{{- $_ := set $data "next-ca.key" $new.key }}
{{- $at = $now }}
{{- else if and (eq $step "promote") (get $data "next-ca.crt") }}
{{- include "webhook.authority.notTooSoon" (list $step $at $now) }}
{{- include "webhook.authority.trusted" (list . (include "webhook.authority.caBundle" $data)) }}
{{- $data = dict "ca.crt" (get $data "next-ca.crt") "ca.key" (get $data "next-ca.key") "previous-ca.crt" (get $data "ca.crt") }}
{{- $at = $now }}
{{- else if and (eq $step "retire") (get $data "previous-ca.crt") }}
{{- include "webhook.authority.notTooSoon" (list $step $at $now) }}
{{- $data = unset $data "previous-ca.crt" }}
{{- $at = $now }}
{{- end }}
{{- dict "data" $data "at" $at | toJson }}
{{- end }}

{{- /* Fails a step that follows the one before too soon for every replica and API server to have heard of that. */ -}}
{{- define "webhook.authority.notTooSoon" -}}
{{- $step := index . 0 }}
{{- $since := sub (index . 2 | int64) (index . 1 | default "0" | int64) }}
{{- if lt $since 120 }}
{{- fail (printf "authority.rotation=%s: the step before was %d seconds ago; wait until it is 120, and repeat" $step $since) }}
{{- end }}
{{- end }}

{{- /* Fails where a configuration of this chart does not have this caBundle: an upgrade that stopped half way. */ -}}
{{- define "webhook.authority.trusted" -}}
{{- $root := index . 0 }}
{{- $wanted := index . 1 }}
{{- range $kind := list "MutatingWebhookConfiguration" "ValidatingWebhookConfiguration" }}
{{- $found := lookup "admissionregistration.k8s.io/v1" $kind "" $root.Chart.Name | default dict }}
{{- range $hook := $found.webhooks }}
{{- if ne (dig "clientConfig" "caBundle" "" $hook) $wanted }}
{{- fail (printf "authority.rotation=promote: %s %s does not trust the next authority yet; run the upgrade with authority.rotation=prepare again" $kind $root.Chart.Name) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "webhook.authority.noCluster" -}}
settings.certificates=authority, the default: the chart keeps the certificate authority of the cluster, and helm sees no cluster here (`helm template`, Argo CD, --dry-run=client), so that each rendering would make another one. Use one of
  - `helm install`, `helm upgrade`, or --dry-run=server
  - admission.caBundle: the certificate of an authority that you have put into the Secret {{ .Release.Namespace }}/{{ include "webhook.authority.secretName" . }} as ca.crt and ca.key
  - settings.certificates=mounted, with certManager.issuerRef or a certificate of yours
docs/webhook.md, Certificates, has more.
{{- end }}
