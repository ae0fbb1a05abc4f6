package main

// workloads selects proxies by namespace and pod, client the requests that the caller's proxy counts.
const (
	workloads = `namespace=~"$namespace", pod=~"$pod"`
	client    = workloads + `, reporter="source"`
)

// proxies returns the dashboard of the data plane: traffic, Envoy and the agents.
func proxies() page {
	return page{
		name: "proxies", title: "Proxies", variables: []variable{
			selection("namespace", "istio_agent_startup_duration_seconds"),
			selection("pod", `istio_agent_startup_duration_seconds{namespace=~"$namespace"}`),
		},
		description: "Requests as the callers' proxies count them, and the proxies themselves.",
		rows: []row{
			{"Requests", proxyRequests()},
			{"Envoy", proxyEnvoy()},
			{"Agent", proxyAgent()},
		},
	}
}

func proxyRequests() []graph {
	return []graph{
		{
			title:   "Requests by destination",
			unit:    "reqps",
			queries: one(rate("istio_requests_total", client, "destination_service"), "{{destination_service}}"),
		},
		{
			title:   "Responses by code",
			unit:    "reqps",
			queries: one(rate("istio_requests_total", client, "response_code"), "{{response_code}}"),
		},
		{
			title: "Success rate by destination", unit: "percentunit",
			queries: one(rate("istio_requests_total", client+`, response_code!~"5.."`, "destination_service")+" / "+
				rate("istio_requests_total", client, "destination_service"), "{{destination_service}}"),
		},
		{
			title:   "Duration by destination (p99)",
			unit:    "ms",
			queries: quantiles("istio_request_duration_milliseconds", client, "destination_service")[2:],
		},
		{
			title: "Requests over mutual TLS",
			unit:  "reqps",
			help:  "As the servers' proxies count them.",
			queries: one(
				rate("istio_requests_total", workloads+`, reporter="destination"`, "connection_security_policy"),
				"{{connection_security_policy}}",
			),
		},
		{
			title:   "Response flags",
			unit:    "reqps",
			help:    "pilotctl explain 503,UF explains one.",
			queries: one(rate("istio_requests_total", client, "response_flags"), "{{response_flags}}"),
		},
	}
}

func proxyEnvoy() []graph {
	return []graph{
		{title: "Proxies", kind: number, queries: one(`count(istio_agent_startup_duration_seconds{`+workloads+`})`, "")},
		{title: "Live Envoys", kind: number, queries: one(`sum(envoy_server_live{`+workloads+`})`, "")},
		{title: "Memory of Envoy", unit: "bytes", queries: one(`envoy_server_memory_allocated{`+workloads+`}`, "{{pod}}")},
		{title: "Uptime of Envoy", unit: "s", queries: one(`envoy_server_uptime{`+workloads+`}`, "{{pod}}")},
		{title: "Failed updates from the control plane", unit: "ops", queries: []query{
			{rate("envoy_cluster_manager_cds_update_rejected", workloads, "pod"), "CDS {{pod}}"},
			{rate("envoy_listener_manager_lds_update_rejected", workloads, "pod"), "LDS {{pod}}"},
		}},
		{title: "Clusters and listeners", queries: []query{
			{`envoy_cluster_manager_active_clusters{` + workloads + `}`, "clusters {{pod}}"},
			{`envoy_listener_manager_total_listeners_active{` + workloads + `}`, "listeners {{pod}}"},
		}},
	}
}

func proxyAgent() []graph {
	return []graph{
		{
			title:   "Failed connections to the control plane",
			unit:    "ops",
			queries: one(rate("istio_agent_istiod_connection_failures", workloads, "pod"), "{{pod}}"),
		},
		{title: "Requests to and responses from the control plane", unit: "ops", queries: []query{
			{rate("istio_agent_xds_proxy_requests", workloads, ""), "requests"},
			{rate("istio_agent_xds_proxy_responses", workloads, ""), "responses"},
		}},
		{
			title:   "Start of a proxy",
			unit:    "s",
			help:    "From the agent's start until the proxy was ready.",
			queries: one(`istio_agent_startup_duration_seconds{`+workloads+`}`, "{{pod}}"),
		},
		{title: "DNS queries", unit: "ops", queries: []query{
			{rate("istio_agent_dns_requests_total", workloads, ""), "queries"},
			{rate("istio_agent_dns_upstream_requests_total", workloads, ""), "upstream"},
			{rate("istio_agent_dns_upstream_failures_total", workloads, ""), "failed"},
		}},
		{title: "Scrapes", unit: "ops", queries: one(rate("istio_agent_scrapes_total", workloads, ""), "scrapes")},
		{
			title:   "Memory of agents",
			unit:    "bytes",
			queries: one(`istio_agent_process_resident_memory_bytes{`+workloads+`}`, "{{pod}}"),
		},
	}
}
