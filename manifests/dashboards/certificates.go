package main

// certificates returns the dashboard of the authority and of the certificates that it and the agents
// have.
func certificates() page {
	return page{
		name: "certificates", title: "Certificates", variables: jobs(),
		description: "Expiry of the mesh's roots and certificates, and requests for new ones.",
		rows: []row{
			{"Expiry", certificateExpiry()},
			{"Requests for certificates", certificateRequests()},
			{"Agents", agentCertificates()},
		},
	}
}

func certificateExpiry() []graph {
	left := func(metric string) []query {
		return one(`min(`+metric+`{`+plane+`} > 0) - time()`, "")
	}
	return []graph{
		{title: "First root expires in", kind: number, unit: "s", queries: left("citadel_server_root_cert_expiry_timestamp")},
		{
			title:   "Signing chain expires in",
			kind:    number,
			unit:    "s",
			queries: left("citadel_server_cert_chain_expiry_timestamp"),
		},
		{
			title: "Serving certificate expires in", kind: number, unit: "s", help: "It is renewed at half of its lifetime.",
			queries: left("meshpilot_serving_cert_expiry_timestamp"),
		},
		{
			title: "Next workload certificate expires in", kind: number, unit: "s",
			queries: one(`min(istio_agent_cert_expiry_seconds{resource_name="default"})`, ""),
		},
	}
}

func certificateRequests() []graph {
	return []graph{
		{title: "Requests and certificates", unit: "ops", queries: []query{
			{rate("citadel_server_csr_count", plane, ""), "requests"},
			{rate("citadel_server_success_cert_issuance_count", plane, ""), "issued"},
		}},
		{title: "Refused requests", unit: "ops", queries: []query{
			{rate("citadel_server_authentication_failure_count", plane, ""), "not authenticated"},
			{rate("citadel_server_csr_parsing_err_count", plane, ""), "invalid request"},
			{rate("citadel_server_id_extraction_err_count", plane, ""), "no service account"},
		}},
		{
			title:   "Failed signatures",
			unit:    "ops",
			help:    "Only after an error.",
			queries: one(rate("citadel_server_csr_sign_err_count", plane, "error"), "{{error}}"),
		},
		{
			title:   "Calls by status",
			unit:    "ops",
			queries: one(rate("grpc_server_handled_total", plane, "grpc_code"), "{{grpc_code}}"),
		},
		{title: "Duration of a call", unit: "s", queries: quantiles("grpc_server_handling_seconds", plane, "")},
		{title: "Keys of token issuers", unit: "ops", queries: []query{
			{rate("pilot_jwks_resolver_network_fetch_success_total", plane, ""), "fetched"},
			{rate("pilot_jwks_resolver_network_fetch_fail_total", plane, ""), "failed"},
		}},
	}
}

func agentCertificates() []graph {
	return []graph{
		{
			title: "Workload certificates that expire first", kind: table, unit: "s",
			queries: one(`bottomk(20, min by (namespace, pod, resource_name) (istio_agent_cert_expiry_seconds))`, ""),
		},
		{
			title: "Requests of agents",
			unit:  "ops",
			queries: one(
				`sum by (request_type) (rate(istio_agent_num_outgoing_requests[$__rate_interval]))`,
				"{{request_type}}",
			),
		},
		{
			title: "Failed requests of agents",
			unit:  "ops",
			help:  "Only after an error.",
			queries: one(
				`sum by (namespace, pod) (rate(istio_agent_num_failed_outgoing_requests[$__rate_interval]))`,
				"{{namespace}}/{{pod}}",
			),
		},
	}
}
