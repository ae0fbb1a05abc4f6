{{- /* Not empty if objects of a scope, cluster or namespace, are rendered. Takes: root, scope. */}}
{{- define "cni.scope" -}}
{{- if has (index . 0).Values.global.resourceScope (list "all" (index . 1)) }}true{{ end }}
{{- end }}

{{- define "cni.labels" -}}
k8s-app: istio-cni-node
app.kubernetes.io/name: istio-cni
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: istio
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- with .Values.revision }}
istio.io/rev: {{ . | quote }}
{{- end }}
{{- end }}

{{- define "cni.image" -}}
{{- if contains "/" .Values.image }}{{ .Values.image }}{{ else }}{{ .Values.hub | default .Values.global.hub }}/{{ .Values.image }}:{{ .Values.tag | default .Values.global.tag | default .Chart.AppVersion }}{{ with .Values.variant | default .Values.global.variant }}-{{ . }}{{ end }}{{ end }}
{{- end }}
