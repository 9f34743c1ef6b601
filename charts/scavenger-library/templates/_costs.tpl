{{- /*
Whether other controllers are told what regular pods would lose, once for both that ask: the prioritizer, which writes, and
the policies, which let it (scavenger-base). docs/checkpoint-contract.md. A release from before has neither value.
*/ -}}
{{- define "scavenger.costs.pods" -}}
{{- if ((.Values.global).disruptionCosts).pods }}true{{ end -}}
{{- end }}

{{- define "scavenger.costs.workloads" -}}
{{- if ((.Values.global).disruptionCosts).workloads }}true{{ end -}}
{{- end }}
