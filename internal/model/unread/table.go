package unread

import "slices"

// Groups returns the table, in the order of the document.
func Groups() []Group {
	return slices.Concat(platformGroups(), xdsGroups(), filterGroups(), gatewayGroups(), serviceGroups(), identityGroups(),
		ambientGroups(), runtimeGroups(), agentGroups())
}

// textsOf returns variables whose default is an empty text, off those whose default is false, and
// on those whose default is true.
func textsOf(names ...string) []Variable { return withDefault("", names) }

func off(names ...string) []Variable { return withDefault("false", names) }

func on(names ...string) []Variable { return withDefault("true", names) }

// withDefault returns variables with one default.
func withDefault(value string, names []string) []Variable {
	list := make([]Variable, 0, len(names))
	for _, name := range names {
		list = append(list, Variable{Name: name, Default: value})
	}
	return list
}

// platformGroups returns the variables about platforms and API servers.
func platformGroups() []Group {
	return []Group{
		{
			textsOf("CONSUL_HTTP_ADDR", "CONSUL_HTTP_AUTH", "CONSUL_HTTP_SSL", "CONSUL_HTTP_SSL_VERIFY", "CONSUL_CACERT",
				"CONSUL_CAPATH", "CONSUL_CLIENT_CERT", "CONSUL_CLIENT_KEY", "CONSUL_TLS_SERVER_NAME"),
			"flags configure the connection to Consul; its certificate is always verified",
		},
		{
			[]Variable{{"MCS_API_GROUP", "multicluster.x-k8s.io"}, {"MCS_API_VERSION", "v1alpha1"}},
			"`multicluster.x-k8s.io`, whichever version is served",
		},
		{textsOf("PILOT_MULTICLUSTER_KUBECONFIG_PATH"), "kubeconfigs come from Secrets"},
		{
			[]Variable{{"ISTIO_KUBE_CLIENT_CONTENT_TYPE", "protobuf"}},
			"JSON for custom resources, protobuf for built-in kinds",
		},
		{on("ENABLE_LEADER_ELECTION"), "always"},
		{
			append(off("PILOT_ENABLE_NODE_UNTAINT_CONTROLLERS"),
				Variable{"PILOT_NODE_UNTAINT_CONTROLLERS_TAINT_NAME", "cni.istio.io/not-ready"}),
			"nodes are not untainted: the chart cni repairs pods that start before the CNI plugin is ready",
		},
		{
			append(off("PILOT_ENABLE_ANALYSIS"), Variable{"PILOT_ANALYSIS_INTERVAL", "10s"}),
			"the checks of `internal/diagnostics/analysis` always run; their findings are at `/debug/problemz`, in `pilotctl " +
				"problems` and in conditions. `pilotctl analyze` has the others of `istioctl analyze`",
		},
	}
}

// xdsGroups returns the variables about xDS streams and caches.
func xdsGroups() []Group {
	return []Group{
		{
			slices.Concat(
				on("ISTIO_DELTA_XDS", "PILOT_ENABLE_XDS_CACHE", "PILOT_ENABLE_CDS_CACHE", "PILOT_ENABLE_RDS_CACHE"),
				off("PILOT_XDS_CACHE_STATS"),
				[]Variable{{"PILOT_XDS_CACHE_SIZE", "60000"}, {"PILOT_XDS_CACHE_INDEX_CLEAR_INTERVAL", "5s"}},
				on("ENABLE_VTPROTOBUF", "ENABLE_LAZY_SIDECAR_EVALUATION"),
				[]Variable{{"PILOT_CONVERT_SIDECAR_SCOPE_CONCURRENCY", "1"}},
			),
			"both protocols are served; generated resources are cached by their input (ADR 3)",
		},
		{
			[]Variable{{"ISTIO_GPRC_MAXSTREAMS", "100000"}},
			"100 streams for each connection; a proxy needs one or two",
		},
		{textsOf("K_REVISION"), "the first stream is served as any other, also on Knative"},
		{
			off("XDS_AUTH_PLAINTEXT"),
			"clients of the plain text port are never authenticated, because a token without TLS can be read and used by others; " +
				"`--grpcAddr=\"\"` disables the port",
		},
	}
}

// filterGroups returns the variables about listeners and filters.
func filterGroups() []Group {
	return []Group{
		{
			slices.Concat(on("PILOT_ENABLE_ALPN_FILTER", "PILOT_ENABLE_METADATA_EXCHANGE"), off("PILOT_DISABLE_MX_ALPN"),
				textsOf("PILOT_MX_ADDITIONAL_LABELS"), on("PILOT_ENABLE_TELEMETRY_LABEL", "PILOT_ENDPOINT_TELEMETRY_LABEL"),
				off("LABEL_CANONICAL_SERVICES_FOR_MESH_EXTERNAL_SERVICE_ENTRIES")),
			"upstream Envoy has none of these filters (ADR 13, 22)",
		},
		{
			slices.Concat(off("PILOT_FILTER_GATEWAY_CLUSTER_CONFIG",
				"PILOT_ALLOW_SIDECAR_SERVICE_INBOUND_LISTENER_MERGE", "PILOT_SIDECAR_USE_REMOTE_ADDRESS"),
				on("PILOT_ENABLE_MONGO_FILTER"), off("PILOT_ENABLE_MYSQL_FILTER"),
				on("PREFER_DESTINATIONRULE_TLS_FOR_EXTERNAL_SERVICES"),
				[]Variable{{"PILOT_DNS_CARES_UDP_MAX_QUERIES", "100"}, {"PILOT_ALLOW_ANY_DYNAMIC_DNS_MAX_HOSTS", "1024"}}),
			"as by default in istiod, where that has an effect here",
		},
		{
			off("PILOT_ENABLE_MULTIPLE_CUSTOM_AUTHZ_PROVIDERS"),
			"always: each provider checks the requests that its own policies select",
		},
		{on("PILOT_ENABLE_ROUTE_COLLAPSE_OPTIMIZATION"), "requests have the same routes with either value"},
	}
}

// gatewayGroups returns the variables about the Gateway API.
func gatewayGroups() []Group {
	return []Group{
		{off("PILOT_ENABLE_ALPHA_GATEWAY_API"), "kinds of the experimental channel are read if they are installed"},
		{
			[]Variable{
				{"PILOT_GATEWAY_API_DEFAULT_GATEWAYCLASS_NAME", "istio"},
				{"PILOT_GATEWAY_API_CONTROLLER_NAME", "istio.io/gateway-controller"},
			},
			"the classes `istio` and `meshpilot` of the controller `istio.io/gateway-controller`",
		},
		{
			on("ENABLE_SELECTOR_BASED_K8S_GATEWAY_POLICY"),
			"policies with a selector always apply to the gateways that it selects",
		},
		{off("PILOT_ENABLE_AGENTGATEWAY"), "gateways are Envoy"},
	}
}

// serviceGroups returns the variables about services, rules and workloads.
func serviceGroups() []Group {
	return []Group{
		{
			on("PILOT_SIDECAR_PICK_BEST_SERVICE_NAMESPACE"),
			"of the services with one host, a sidecar uses that of its own namespace, else one of Kubernetes, else " +
				"one that is not exported to all namespaces, else the oldest",
		},
		{on("PILOT_UNIFIED_SIDECAR_SCOPE"), "always: a temporary switch of istiod"},
		{
			on("ENABLE_ENHANCED_DESTINATIONRULE_MERGE"),
			"each client uses all rules of a host that it may see, merged (ADR 7)",
		},
		{off("ENABLE_PROXY_FIND_POD_BY_IP"), "always: a proxy's pod is found by its address"},
		{off("PILOT_ENVOY_FILTER_STATS"), "failed patches are Problems with the code MP0012, which `meshpilot_problem_warnings` counts"},
	}
}

// identityGroups returns the variables about certificates and trust.
func identityGroups() []Group {
	return []Group{
		{off("ISTIO_MULTIROOT_MESH"), "roots and trust bundles always go to agents (ADR 29)"},
		{textsOf("SPIFFE_BUNDLE_ENDPOINTS"), "the control plane's own ports know the mesh's own authority only"},
		{
			off("ENABLE_CLUSTER_TRUST_BUNDLE_API"),
			"roots are published in ConfigMaps, which the injected pods mount",
		},
		{
			[]Variable{{"PILOT_CRL_CONFIGMAP", "istio-ca-crl"}},
			"revocation lists are the key `ca-crl.pem` of the ConfigMap with the roots",
		},
		{
			off("USE_REMOTE_CERTS"),
			"the authority's key is mounted from a Secret of the cluster that runs the control plane, or is a Secret of the " +
				"cluster of `--kubeconfig`",
		},
	}
}

// ambientGroups returns the variables about ambient mode, HBONE and waypoints.
func ambientGroups() []Group {
	return []Group{{
		slices.Concat(
			off("PILOT_ENABLE_AMBIENT", "PILOT_ENABLE_AMBIENT_WAYPOINTS", "PILOT_ENABLE_SENDING_HBONE",
				"PILOT_ENABLE_SIDECAR_LISTENING_HBONE", "AMBIENT_ENABLE_STATUS", "PILOT_PREFER_SENDING_HBONE",
				"PILOT_AUTO_ALLOW_WAYPOINT_POLICY", "ENABLE_INGRESS_WAYPOINT_ROUTING", "AMBIENT_ENABLE_MULTI_NETWORK",
				"AMBIENT_ENABLE_MULTI_NETWORK_WAYPOINT", "AMBIENT_ENABLE_MULTI_NETWORK_INGRESS", "AMBIENT_ENABLE_BAGGAGE",
				"AMBIENT_ENABLE_DRY_RUN_AUTHORIZATION_POLICY", "ENABLE_LAYERED_WAYPOINT_AUTHORIZATION_POLICIES"),
			on("AMBIENT_SCOPED_ADDRESS_PUSHES"),
			[]Variable{
				{"PILOT_HBONE_INITIAL_STREAM_WINDOW_SIZE", "0"}, {"PILOT_HBONE_INITIAL_CONNECTION_WINDOW_SIZE", "0"},
			},
			off("ENABLE_WILDCARD_HOST_SERVICE_ENTRIES_FOR_TLS"),
		),
		"ambient mode, HBONE and waypoints are not there yet",
	}}
}

// runtimeGroups returns the variables about the process of istiod.
func runtimeGroups() []Group {
	return []Group{
		{
			append(off("ISTIO_ENABLE_CONTROLLER_QUEUE_METRICS", "UNSAFE_PILOT_ENABLE_RUNTIME_ASSERTIONS"),
				Variable{"MUTEX_PROFILE_FRACTION", "1000"}),
			"diagnostics of istiod's own code",
		},
		{
			textsOf("CLOUD_PLATFORM", "GCP_METADATA", "GCP_QUOTA_PROJECT", "GCP_ZONE"),
			"the platform has no effect, except as PLATFORM for Kubernetes; agents ask the metadata server of their machine",
		},
	}
}

// agentGroups returns the variables that only pilot-agent reads, although istiod registers them
// too.
func agentGroups() []Group {
	return []Group{{
		slices.Concat(off("ENVOY_STATUS_PORT_ENABLE_PROXY_PROTOCOL", "ISTIO_ENVOY_ENABLE_CORE_DUMP"),
			on("HTTP_STRIP_FRAGMENT_FROM_PATH_UNSAFE_IF_DISABLED", "PILOT_AGENT_MERGE_ENVOY_STATS"),
			[]Variable{{"ISTIO_WASM_MAX_BINARY_SIZE_BYTES", "268435456"}}),
		"no effect in istiod either: they are variables of agents ([ENVIRONMENT-AGENT.md](ENVIRONMENT-AGENT.md) has those that " +
			"pilot-agent reads)",
	}}
}
