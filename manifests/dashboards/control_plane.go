package main

// plane selects the control planes that the user has chosen. Metrics that other programs have too are
// joined with one of the control plane's.
const (
	plane   = `job=~"$job"`
	ofPlane = `* on (job, instance) (meshpilot_ready{job=~"$job"} >= bool 0)`
)

// jobs selects control planes by the job of their targets.
func jobs() []variable { return []variable{selection("job", "meshpilot_ready")} }

// controlPlane returns the dashboard of the control plane as a program: state, load and sources.
func controlPlane() page {
	return page{
		name: "control-plane", title: "Control plane", variables: jobs(),
		description: "Replicas of the control plane: readiness, load, what they read and write.",
		rows: []row{
			{"State", planeState()},
			{"Resources", planeResources()},
			{"Sources", planeSources()},
			{"Webhooks and writes", planeWrites()},
		},
	}
}

func planeState() []graph {
	return []graph{
		{title: "Ready replicas", kind: number, queries: one(`sum(meshpilot_ready{`+plane+`})`, "")},
		{
			title:   "Replicas that are not ready",
			kind:    number,
			queries: one(`count(meshpilot_ready{`+plane+`}) - sum(meshpilot_ready{`+plane+`})`, ""),
		},
		{title: "Proxies", kind: number, queries: one(`sum(pilot_xds{`+plane+`})`, "")},
		{title: "Services", kind: number, queries: one(`max(pilot_services{`+plane+`})`, "")},
		{
			title: "Configuration errors", kind: number, help: "pilotctl problems lists them.",
			queries: one(`max(meshpilot_problem_errors{`+plane+`})`, ""),
		},
		{title: "Configuration warnings", kind: number, queries: one(`max(meshpilot_problem_warnings{`+plane+`})`, "")},
		{title: "Versions", kind: table, queries: one(`sum by (version, instance) (pilot_info{`+plane+`})`, "")},
		{title: "Proxies by replica", queries: one(`sum by (instance) (pilot_xds{`+plane+`})`, "{{instance}}")},
		{
			title: "Tasks that a replica leads", help: "Only with an API server.",
			queries: one(`sum by (task) (meshpilot_leader{`+plane+`})`, "{{task}}"),
		},
		{title: "Uptime", unit: "s", queries: one(`istiod_uptime_seconds{`+plane+`}`, "{{instance}}")},
		{
			title: "Recovered panics and internal errors",
			queries: one(
				`sum by (instance) (increase(pilot_total_xds_internal_errors{`+plane+`}[$__rate_interval]))`,
				"{{instance}}",
			),
		},
	}
}

func planeResources() []graph {
	return []graph{
		{
			title:   "CPU",
			unit:    "short",
			help:    "Cores in use.",
			queries: one(`rate(process_cpu_seconds_total[$__rate_interval]) `+ofPlane, "{{instance}}"),
		},
		{
			title: "Memory", unit: "bytes", help: "Resident memory, and the limit that the garbage collector keeps.",
			queries: []query{
				{`process_resident_memory_bytes ` + ofPlane, "{{instance}}"},
				{`(go_gc_gomemlimit_bytes < 1e15) ` + ofPlane, "{{instance}} limit"},
			},
		},
		{title: "Heap in use", unit: "bytes", queries: one(`go_memstats_heap_inuse_bytes `+ofPlane, "{{instance}}")},
		{
			title:   "Allocation rate",
			unit:    "Bps",
			queries: one(`rate(go_memstats_alloc_bytes_total[$__rate_interval]) `+ofPlane, "{{instance}}"),
		},
		{title: "Goroutines", queries: one(`go_goroutines `+ofPlane, "{{instance}}")},
		{title: "Open files", queries: one(`process_open_fds `+ofPlane, "{{instance}}")},
	}
}

func planeSources() []graph {
	return []graph{
		{title: "Changes read", unit: "ops", queries: one(rate("pilot_inbound_updates", plane, "type"), "{{type}}")},
		{
			title:   "Events of configuration objects",
			unit:    "ops",
			queries: one(rate("pilot_k8s_cfg_events", plane, "type, event"), "{{type}} {{event}}"),
		},
		{
			title: "Events of Kubernetes objects", unit: "ops", help: "Only with an API server.",
			queries: one(rate("pilot_k8s_reg_events", plane, "type, event"), "{{type}} {{event}}"),
		},
		{
			title:   "Age of what is read",
			unit:    "s",
			help:    "How long a source has not been readable; 0 is normal. Only with an API server.",
			queries: one(`max by (source, instance) (meshpilot_source_age_seconds{`+plane+`})`, "{{source}} {{instance}}"),
		},
		{title: "Services and VirtualServices", queries: []query{
			{`max(pilot_services{` + plane + `})`, "Services"}, {`max(pilot_virt_services{` + plane + `})`, "VirtualServices"},
		}},
		{title: "Endpoints that are not healthy", queries: one(`max(pilot_endpoint_not_ready{`+plane+`})`, "endpoints")},
		{
			title: "Remote clusters by state", help: "Only with remote clusters.",
			queries: one(`sum by (status) (istiod_remote_cluster_sync_status{`+plane+`})`, "{{status}}"),
		},
		{
			title: "Platforms that can be read", help: "1: everything was reported. Only with ZooKeeper, Eureka and others.",
			queries: one(`min by (platform) (meshpilot_platform_synced{`+plane+`})`, "{{platform}}"),
		},
		{
			title:   "Failing queries of Consul",
			queries: one(`sum by (instance) (meshpilot_consul_failing_queries{`+plane+`})`, "{{instance}}"),
		},
	}
}

func planeWrites() []graph {
	return []graph{
		{title: "Injection", unit: "ops", queries: []query{
			{rate("sidecar_injection_success_total", plane, ""), "injected"},
			{rate("sidecar_injection_skip_total", plane, ""), "skipped"},
			{rate("sidecar_injection_failure_total", plane, ""), "failed"},
		}},
		{title: "Injection time", unit: "s", queries: quantiles("sidecar_injection_time_seconds", plane, "")},
		{
			title:   "Validation (accepted)",
			unit:    "ops",
			help:    "Only with webhooks.",
			queries: one(rate("galley_validation_passed", plane, "resource"), "{{resource}}"),
		},
		{
			title:   "Validation (refused)",
			unit:    "ops",
			help:    "Only after an error.",
			queries: one(rate("galley_validation_failed", plane, "resource, reason"), "{{resource}} {{reason}}"),
		},
		{
			title:   "Status writes",
			unit:    "ops",
			help:    "Only with an API server.",
			queries: one(rate("meshpilot_status_writes_total", plane, "outcome"), "{{outcome}}"),
		},
		{
			title:   "Webhook configuration writes",
			unit:    "ops",
			help:    "Only with an API server.",
			queries: one(rate("webhook_patch_attempts_total", plane, "name"), "{{name}}"),
		},
	}
}
