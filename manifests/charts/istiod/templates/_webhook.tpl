{{- /* One injecting webhook. Takes: root, prefix, suffix (of its name), path, namespaceSelector, objectSelector. */}}
{{- define "istiod.injector" -}}
{{- $root := .root }}
- name: {{ .prefix }}sidecar-injector.istio.io
  clientConfig:
    {{- if $root.Values.istiodRemote.injectionURL }}
    url: {{ $root.Values.istiodRemote.injectionURL }}
    {{- else }}
    service:
      name: {{ include "istiod.name" $root }}
      namespace: {{ $root.Release.Namespace }}
      path: {{ $root.Values.istiodRemote.injectionPath }}
      port: 443
    {{- end }}
    {{- with $root.Values.istiodRemote.injectionCABundle }}
    caBundle: {{ . }}
    {{- end }}
  sideEffects: None
  admissionReviewVersions: [v1]
  failurePolicy: Fail
  reinvocationPolicy: {{ $root.Values.sidecarInjectorWebhook.reinvocationPolicy }}
  rules:
  - operations: [CREATE]
    apiGroups: [""]
    apiVersions: [v1]
    resources: [pods]
  namespaceSelector:
    matchExpressions: {{- toYaml .namespaceSelector | nindent 4 }}
  objectSelector:
    matchExpressions: {{- toYaml .objectSelector | nindent 4 }}
{{- end }}

{{- /* The webhooks by which namespaces and pods that name a revision (or a tag of it) are injected. Takes: root, name. */}}
{{- define "istiod.injectors.named" -}}
{{- $asked := list (dict "key" "istio.io/rev" "operator" "In" "values" (list .name)) (dict "key" "istio-injection" "operator" "DoesNotExist") }}
{{- $notRefused := list (dict "key" "sidecar.istio.io/inject" "operator" "NotIn" "values" (list "false")) }}
{{ include "istiod.injector" (dict "root" .root "prefix" "rev.namespace." "namespaceSelector" $asked "objectSelector" $notRefused) }}
{{- $unnamed := list (dict "key" "istio.io/rev" "operator" "DoesNotExist") (dict "key" "istio-injection" "operator" "DoesNotExist") }}
{{- $pod := append $notRefused (dict "key" "istio.io/rev" "operator" "In" "values" (list .name)) }}
{{ include "istiod.injector" (dict "root" .root "prefix" "rev.object." "namespaceSelector" $unnamed "objectSelector" $pod) }}
{{- end }}

{{- /* The webhooks by which namespaces and pods are injected that ask for injection and name no revision. Takes: root. */}}
{{- define "istiod.injectors.default" -}}
{{- $enabled := list (dict "key" "istio-injection" "operator" "In" "values" (list "enabled")) }}
{{- $notRefused := list (dict "key" "sidecar.istio.io/inject" "operator" "NotIn" "values" (list "false")) }}
{{ include "istiod.injector" (dict "root" .root "prefix" "namespace." "namespaceSelector" $enabled "objectSelector" $notRefused) }}
{{- $unlabelled := list (dict "key" "istio-injection" "operator" "DoesNotExist") (dict "key" "istio.io/rev" "operator" "DoesNotExist") }}
{{- $asks := list (dict "key" "sidecar.istio.io/inject" "operator" "In" "values" (list "true")) (dict "key" "istio.io/rev" "operator" "DoesNotExist") }}
{{ include "istiod.injector" (dict "root" .root "prefix" "object." "namespaceSelector" $unlabelled "objectSelector" $asks) }}
{{- if .root.Values.sidecarInjectorWebhook.enableNamespacesByDefault }}
{{- $system := dict "key" "kubernetes.io/metadata.name" "operator" "NotIn" "values" (list "kube-system" "kube-public" "kube-node-lease" "local-path-storage") }}
{{- $silent := append $notRefused (dict "key" "istio.io/rev" "operator" "DoesNotExist") }}
{{ include "istiod.injector" (dict "root" .root "prefix" "auto." "namespaceSelector" (append $unlabelled $system) "objectSelector" $silent) }}
{{- end }}
{{- end }}
