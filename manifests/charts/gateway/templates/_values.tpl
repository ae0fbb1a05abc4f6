{{- /* Written by go test ./manifests/helmvalues -update. Do not edit. */}}

{{- /* Merges the values: defaults, then those of the profile and the platform, then those of the installation. Every template
includes it before it reads a value. It fails for a value that is rejected. */}}
{{- define "gateway.values" -}}
{{- $defaults := index .Values "_internal_defaults_do_not_set" }}
{{- if $defaults }}
{{- $set := omit .Values "_internal_defaults_do_not_set" }}
{{- include "gateway.values.check" (list . $set) }}
{{- $merged := deepCopy $defaults }}
{{- range $name := list (coalesce $set.profile (($set).global).profile "default") (coalesce $set.platform (($set).global).platform "none" | printf "platform-%s") }}
{{- include "gateway.values.merge" (list $merged ($.Files.Get (printf "profiles/%s.yaml" $name) | fromYaml)) }}
{{- end }}
{{- include "gateway.values.merge" (list $merged $set) }}
{{- $_ := set . "Values" $merged }}
{{- end }}
{{- end }}

{{- /* Sets in the first map what the second one has; null removes. */}}
{{- define "gateway.values.merge" -}}
{{- $into := index . 0 }}
{{- range $key, $value := index . 1 }}
{{- if kindIs "invalid" $value }}
{{- $_ := unset $into $key }}
{{- else if and (kindIs "map" $value) (kindIs "map" (get $into $key)) }}
{{- include "gateway.values.merge" (list (get $into $key) $value) }}
{{- else }}
{{- $_ := set $into $key $value }}
{{- end }}
{{- end }}
{{- end }}

{{- define "gateway.values.check" -}}
{{- $root := index . 0 }}
{{- $set := index . 1 }}
{{- $global := $set.global | default dict }}
{{- $known := include "gateway.values.global" . | fromYamlArray }}
{{- range $name := keys $global | sortAlpha }}
{{- if and $root.Chart.IsRoot (not (has $name $known)) }}
{{- $alike := list }}
{{- range $known }}{{ if eq (lower (trunc 1 .)) (lower (trunc 1 $name)) }}{{ $alike = append $alike . }}{{ end }}{{ end }}
{{- fail (printf "global.%s is not a value of the chart: known are global.%s" $name (join ", global." ($alike | default $known))) }}
{{- end }}
{{- end }}
{{- range $row := include "gateway.values.rejected" . | fromYamlArray }}
{{- $at := $set }}
{{- range $key := splitList "." $row.name }}
{{- if kindIs "map" $at }}{{ $at = get $at $key }}{{ else }}{{ $at = "" }}{{ end }}
{{- end }}
{{- $isSet := not (or (kindIs "invalid" $at) (eq (toJson $at) "\"\"")) }}
{{- if and $isSet $row.reason (not (has (toJson $at) $row.accepts)) }}
{{- fail (printf "%s=%s is rejected: %s" $row.name (toJson $at) $row.reason) }}
{{- end }}
{{- with $row.values }}{{ if and $isSet (hasKey . (toString $at)) }}
{{- fail (printf "%s=%s is rejected: %s" $row.name (toJson $at) (get . (toString $at))) }}
{{- end }}{{ end }}
{{- end }}
{{- end }}

{{- /* The names that global has in any of the charts. */}}
{{- define "gateway.values.global" -}}
- agentgateway
- caAddress
- caName
- certSigners
- certificates
- configCluster
- configValidation
- defaultPodDisruptionBudget
- defaultResources
- enableReaderRBAC
- externalIstiod
- hub
- imagePullPolicy
- imagePullSecrets
- ipFamilies
- ipFamilyPolicy
- istioNamespace
- istiod
- logAsJson
- logging
- meshID
- meshNetworks
- mountMtlsCerts
- multiCluster
- nativeNftables
- network
- networkPolicy
- omitSidecarInjectorConfigMap
- operatorManageWebhooks
- pilotCertProvider
- platform
- priorityClassName
- profile
- proxy
- proxy_init
- readerServiceAccount
- remotePilotAddress
- resourceScope
- sds
- sts
- tag
- tracer
- trustBundleName
- trustDomain
- variant
- waypoint
{{- end }}

{{- define "gateway.values.rejected" -}}
- name: profile
  values:
    ambient: ambient mode is not supported
    openshift: set platform=openshift
    stable: it adds a ValidatingAdmissionPolicy that the charts do not have
- name: compatibilityVersion
  reason: there are no settings of older versions as a set
- name: ownerName
  reason: 'it labels objects for the retired operator of Istio: remove it'
{{- end }}
