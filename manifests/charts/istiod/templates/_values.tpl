{{- /* Written by go test ./manifests/helmvalues -update. Do not edit. */}}

{{- /* Merges the values: defaults, then those of the profile and the platform, then those of the installation. Every template
includes it before it reads a value. It fails for a value that is rejected. */}}
{{- define "istiod.values" -}}
{{- $defaults := index .Values "_internal_defaults_do_not_set" }}
{{- if $defaults }}
{{- $set := omit .Values "_internal_defaults_do_not_set" "pilot" | deepCopy }}
{{- include "istiod.values.merge" (list $set (get .Values "pilot" | default dict)) }}
{{- include "istiod.values.check" (list . $set) }}
{{- $merged := deepCopy $defaults }}
{{- range $name := list (coalesce $set.profile (($set).global).profile "default") (coalesce $set.platform (($set).global).platform "none" | printf "platform-%s") }}
{{- include "istiod.values.merge" (list $merged ($.Files.Get (printf "profiles/%s.yaml" $name) | fromYaml)) }}
{{- end }}
{{- include "istiod.values.merge" (list $merged $set) }}
{{- $_ := set . "Values" $merged }}
{{- end }}
{{- end }}

{{- /* Sets in the first map what the second one has; null removes. */}}
{{- define "istiod.values.merge" -}}
{{- $into := index . 0 }}
{{- range $key, $value := index . 1 }}
{{- if kindIs "invalid" $value }}
{{- $_ := unset $into $key }}
{{- else if and (kindIs "map" $value) (kindIs "map" (get $into $key)) }}
{{- include "istiod.values.merge" (list (get $into $key) $value) }}
{{- else }}
{{- $_ := set $into $key $value }}
{{- end }}
{{- end }}
{{- end }}

{{- define "istiod.values.check" -}}
{{- $root := index . 0 }}
{{- $set := index . 1 }}
{{- $global := $set.global | default dict }}
{{- $known := include "istiod.values.global" . | fromYamlArray }}
{{- range $name := keys $global | sortAlpha }}
{{- if and $root.Chart.IsRoot (not (has $name $known)) }}
{{- $alike := list }}
{{- range $known }}{{ if eq (lower (trunc 1 .)) (lower (trunc 1 $name)) }}{{ $alike = append $alike . }}{{ end }}{{ end }}
{{- fail (printf "global.%s is not a value of the chart: known are global.%s" $name (join ", global." ($alike | default $known))) }}
{{- end }}
{{- end }}
{{- range $row := include "istiod.values.rejected" . | fromYamlArray }}
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
{{- define "istiod.values.global" -}}
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

{{- define "istiod.values.rejected" -}}
- name: profile
  values:
    ambient: 'ambient mode is not supported: workloads get sidecars'
    empty: install the chart base alone
    openshift: set platform=openshift
    stable: it adds a ValidatingAdmissionPolicy that the charts do not have
- name: compatibilityVersion
  reason: 'there are no settings of older versions as a set: set the variables of
    env that you need'
- name: ownerName
  reason: 'it labels objects for the retired operator of Istio: remove it'
- accepts:
  - '{}'
  - '{"enabled":true,"minAvailable":1}'
  name: podDisruptionBudget
  reason: it is called pdb, as in Istio's chart; global.defaultPodDisruptionBudget.enabled
    turns it off
- name: crlConfigMapName
  reason: lists of revoked certificates are the file ca-crl.pem of the Secret cacerts
- accepts:
  - '{}'
  - '{"enabled":true}'
  name: validation
  reason: it is called global.configValidation, as in Istio's chart
- accepts:
  - "false"
  name: experimental.stableValidationPolicy
  reason: 'the chart has no ValidatingAdmissionPolicy: apply one of your own'
- accepts:
  - "false"
  name: taint.enabled
  reason: 'nodes are not untainted by the control plane: pods that start before the
    CNI plugin is ready are handled by repair of the chart cni'
- name: taint.namespace
  reason: nodes are not untainted by the control plane
- accepts:
  - '"cni.istio.io/not-ready"'
  name: taint.name
  reason: nodes are not untainted by the control plane
- name: trustedZtunnelNamespace
  reason: ambient mode is not supported; env.CA_TRUSTED_NODE_ACCOUNTS names trusted
    node proxies
- name: trustedZtunnelName
  reason: ambient mode is not supported; env.CA_TRUSTED_NODE_ACCOUNTS names trusted
    node proxies
- accepts:
  - "true"
  name: base.enableIstioConfigCRDs
  reason: 'the definitions are in the chart base: base.enableCRDTemplates'
- accepts:
  - "false"
  name: telemetry.v2.stackdriver.enabled
  reason: 'upstream Envoy has no filter for it: use an OpenTelemetry collector (meshConfig.extensionProviders)'
- accepts:
  - "false"
  name: istiodRemote.enabledLocalInjectorIstiod
  reason: 'the injector of a remote cluster is that of its control plane: istiodRemote.injectionURL
    or injectionPath'
- name: global.caName
  reason: certificates come from the control plane or the address global.caAddress
- accepts:
  - "false"
  name: global.multiCluster.enabled
  reason: a mesh of several clusters needs only global.multiCluster.clusterName
- accepts:
  - "false"
  name: global.istiod.enableAnalysis
  reason: 'objects are always analysed: conditions, Events and pilotctl problems have
    the findings'
- accepts:
  - "false"
  name: global.mountMtlsCerts
  reason: 'it mounts Secrets of Istio before 1.5: use the annotations sidecar.istio.io/userVolume
    and userVolumeMount'
- accepts:
  - '"cluster.local"'
  name: global.trustDomain
  reason: set meshConfig.trustDomain
- accepts:
  - '[]'
  name: global.certificates
  reason: 'certificates of other components are not issued: use cert-manager or a
    signer of Kubernetes'
- name: global.agentgateway.image
  reason: gateways are Envoy
- accepts:
  - '{}'
  - '{"limits":{"cpu":"2","memory":"1Gi"},"requests":{"cpu":"100m","memory":"128Mi"}}'
  name: global.waypoint.resources
  reason: ambient mode is not supported
- accepts:
  - '{}'
  name: global.waypoint.affinity
  reason: ambient mode is not supported
- accepts:
  - '[]'
  name: global.waypoint.topologySpreadConstraints
  reason: ambient mode is not supported
- accepts:
  - '{}'
  name: global.waypoint.nodeSelector
  reason: ambient mode is not supported
- accepts:
  - '[]'
  name: global.waypoint.tolerations
  reason: ambient mode is not supported
- name: global.tracer.lightstep.accessToken
  reason: 'this tracer was removed from Envoy: use meshConfig.extensionProviders'
- name: global.tracer.lightstep.address
  reason: 'this tracer was removed from Envoy: use meshConfig.extensionProviders'
- accepts:
  - '{}'
  name: global.tracer.stackdriver
  reason: 'this tracer was removed from Envoy: use meshConfig.extensionProviders'
- name: global.proxy.tracer
  values:
    lightstep: 'this tracer was removed from Envoy: use meshConfig.extensionProviders'
    openCensusAgent: 'this tracer was removed from Envoy: use meshConfig.extensionProviders'
    stackdriver: 'this tracer was removed from Envoy: use meshConfig.extensionProviders'
- accepts:
  - "15020"
  name: global.proxy.statusPort
  reason: set meshConfig.defaultConfig.statusPort, which agents read too
{{- end }}
