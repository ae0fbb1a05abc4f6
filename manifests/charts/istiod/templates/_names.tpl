{{- /* Suffix of this revision's objects: "-canary", or nothing for the default one. */}}
{{- define "istiod.suffix" -}}
{{- if and .Values.revision (ne .Values.revision "default") }}-{{ .Values.revision }}{{ end }}
{{- end }}

{{- define "istiod.revision" -}}
{{ .Values.revision | default "default" }}
{{- end }}

{{- define "istiod.name" -}}
istiod{{ include "istiod.suffix" . }}
{{- end }}

{{- /* Not empty if objects of a scope, cluster or namespace, are rendered. Takes: root, scope. */}}
{{- define "istiod.scope" -}}
{{- if has (index . 0).Values.global.resourceScope (list "all" (index . 1)) }}true{{ end }}
{{- end }}

{{- define "istiod.hub" -}}
{{ .Values.global.hub | default .Values.hub }}
{{- end }}

{{- define "istiod.tag" -}}
{{ .Values.global.tag | default .Values.tag }}
{{- end }}

{{- define "istiod.image" -}}
{{- if contains "/" .Values.image }}{{ .Values.image }}{{ else }}{{ include "istiod.hub" . }}/{{ .Values.image }}:{{ include "istiod.tag" . }}{{ with .Values.variant | default .Values.global.variant }}-{{ . }}{{ end }}{{ end }}
{{- end }}

{{- define "istiod.labels" -}}
app: istiod
{{ include "istiod.labels.common" . }}
{{- end }}

{{- /* Of the injecting webhooks: istioctl knows them by the app. */}}
{{- define "istiod.labels.injector" -}}
app: sidecar-injector
{{ include "istiod.labels.common" . }}
{{- end }}

{{- define "istiod.labels.common" -}}
app.kubernetes.io/name: istiod
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: istio
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
istio.io/rev: {{ include "istiod.revision" . | quote }}
{{- end }}

{{- define "istiod.selector" -}}
app: istiod
{{- if include "istiod.suffix" . }}
istio.io/rev: {{ .Values.revision | quote }}
{{- else }}
istio: pilot
{{- end }}
{{- end }}

{{- /* Where agents of this revision find the control plane. */}}
{{- define "istiod.address" -}}
{{ include "istiod.name" . }}.{{ .Release.Namespace }}.svc:15012
{{- end }}

{{- /* Not empty where the configuration of the mesh is in this cluster: it has the control plane, or is what an external one reads. */}}
{{- define "istiod.config" -}}
{{- if or (not .Values.istiodRemote.enabled) .Values.global.configCluster }}true{{ end }}
{{- end }}

{{- /* Not empty if the control plane deploys gateways for Gateways of the Gateway API, which may name ConfigMaps of any namespace. */}}
{{- define "istiod.deploysGateways" -}}
{{- if and (ne (toString .Values.env.PILOT_ENABLE_GATEWAY_API) "false") (ne (toString .Values.env.PILOT_ENABLE_GATEWAY_API_DEPLOYMENT_CONTROLLER) "false") }}true{{ end }}
{{- end }}
