{{- /* Not empty if objects of a scope, cluster or namespace, are rendered. Takes: root, scope. */}}
{{- define "base.scope" -}}
{{- if has (index . 0).Values.global.resourceScope (list "all" (index . 1)) }}true{{ end }}
{{- end }}
