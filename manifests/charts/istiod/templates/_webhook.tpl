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
    matchExpressions: {{- toYaml .namespaceSelector | nindent 6 }}
  objectSelector:
    matchExpressions: {{- toYaml .objectSelector | nindent 4 }}
{{- end }}

{{- /* Pods that may be injected because of their namespace: all but those that refuse, and gateways that the control plane deploys. */}}
{{- define "istiod.injector.notRefused" -}}
- {key: sidecar.istio.io/inject, operator: NotIn, values: ["false"]}
- {key: gateway.istio.io/managed, operator: DoesNotExist}
{{- end }}

{{- /* Pods of gateways that the control plane deploys. They are injected by the revision that deploys them, in any namespace. */}}
{{- define "istiod.injector.gateway" -}}
- {key: gateway.istio.io/managed, operator: Exists}
- {key: sidecar.istio.io/inject, operator: In, values: ["true"]}
{{- end }}

{{- /* The webhooks by which namespaces and pods that name a revision (or a tag of it) are injected. Takes: root, name. */}}
{{- define "istiod.injectors.named" -}}
{{- $asked := list (dict "key" "istio.io/rev" "operator" "In" "values" (list .name)) (dict "key" "istio-injection" "operator" "DoesNotExist") }}
{{- $notRefused := include "istiod.injector.notRefused" . | fromYamlArray }}
{{ include "istiod.injector" (dict "root" .root "prefix" "rev.namespace." "namespaceSelector" $asked "objectSelector" $notRefused) }}
{{- $unnamed := list (dict "key" "istio.io/rev" "operator" "DoesNotExist") (dict "key" "istio-injection" "operator" "DoesNotExist") }}
{{- $pod := append $notRefused (dict "key" "istio.io/rev" "operator" "In" "values" (list .name)) }}
{{ include "istiod.injector" (dict "root" .root "prefix" "rev.object." "namespaceSelector" $unnamed "objectSelector" $pod) }}
{{- $gateway := append (include "istiod.injector.gateway" . | fromYamlArray) (dict "key" "istio.io/rev" "operator" "In" "values" (list .name)) }}
{{ include "istiod.injector" (dict "root" .root "prefix" "rev.gateway." "namespaceSelector" list "objectSelector" $gateway) }}
{{- end }}

{{- /* The webhooks by which namespaces and pods are injected that ask for injection and name no revision. Takes: root. */}}
{{- define "istiod.injectors.default" -}}
{{- $enabled := list (dict "key" "istio-injection" "operator" "In" "values" (list "enabled")) }}
{{- $notRefused := include "istiod.injector.notRefused" . | fromYamlArray }}
{{ include "istiod.injector" (dict "root" .root "prefix" "namespace." "namespaceSelector" $enabled "objectSelector" $notRefused) }}
{{- $unlabelled := list (dict "key" "istio-injection" "operator" "DoesNotExist") (dict "key" "istio.io/rev" "operator" "DoesNotExist") }}
{{- $asks := list (dict "key" "sidecar.istio.io/inject" "operator" "In" "values" (list "true")) (dict "key" "istio.io/rev" "operator" "DoesNotExist") (dict "key" "gateway.istio.io/managed" "operator" "DoesNotExist") }}
{{ include "istiod.injector" (dict "root" .root "prefix" "object." "namespaceSelector" $unlabelled "objectSelector" $asks) }}
{{- $gateway := append (include "istiod.injector.gateway" . | fromYamlArray) (dict "key" "istio.io/rev" "operator" "DoesNotExist") }}
{{ include "istiod.injector" (dict "root" .root "prefix" "gateway." "namespaceSelector" list "objectSelector" $gateway) }}
{{- if .root.Values.sidecarInjectorWebhook.enableNamespacesByDefault }}
{{- $system := dict "key" "kubernetes.io/metadata.name" "operator" "NotIn" "values" (list "kube-system" "kube-public" "kube-node-lease" "local-path-storage") }}
{{- $silent := list (dict "key" "sidecar.istio.io/inject" "operator" "DoesNotExist") (dict "key" "istio.io/rev" "operator" "DoesNotExist") (dict "key" "gateway.istio.io/managed" "operator" "DoesNotExist") }}
{{ include "istiod.injector" (dict "root" .root "prefix" "auto." "namespaceSelector" (append $unlabelled $system) "objectSelector" $silent) }}
{{- end }}
{{- end }}
