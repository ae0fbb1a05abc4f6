package main

// pushes returns the dashboard of how changes reach proxies.
func pushes() page {
	return page{
		name: "pushes", title: "Pushes", variables: jobs(),
		description: "How changes reach proxies: time to acknowledgement, what is sent, what is rejected.",
		rows: []row{
			{"From a change to its acknowledgement", pushTimes()},
			{"What is sent", pushVolume()},
			{"What goes wrong", pushFailures()},
			{"What is shared", pushSharing()},
		},
	}
}

func pushTimes() []graph {
	return []graph{
		{
			title:   "Change to acknowledgement",
			unit:    "s",
			help:    "From a change to its acknowledgement by a proxy that was sent something for it.",
			queries: quantiles("pilot_proxy_convergence_time", plane, ""),
		},
		{
			title:   "Applying changes to the snapshot",
			unit:    "s",
			queries: quantiles("pilot_pushcontext_init_seconds", plane, ""),
		},
		{title: "Collecting changes into one push", unit: "s", queries: quantiles("pilot_debounce_time", plane, "")},
		{
			title:   "Generating a type for a class of proxies (p99)",
			unit:    "s",
			queries: quantiles("pilot_xds_push_time", plane, "type")[2:],
		},
		{title: "Waiting until a stream is free", unit: "s", queries: quantiles("pilot_proxy_queue_time", plane, "")},
		{title: "Writing a response", unit: "s", queries: quantiles("pilot_xds_send_time", plane, "")},
	}
}

func pushVolume() []graph {
	return []graph{
		{title: "Pushes by cause", unit: "ops", queries: one(rate("pilot_push_triggers", plane, "type"), "{{type}}")},
		{title: "Responses by type", unit: "ops", queries: one(rate("pilot_xds_pushes", plane, "type"), "{{type}}")},
		{
			title:   "Bytes sent by type",
			unit:    "Bps",
			queries: one(rate("meshpilot_xds_sent_bytes_total", plane, "type"), "{{type}}"),
		},
		{
			title: "Size of responses (mean)", unit: "bytes",
			queries: one(
				rate("pilot_xds_config_size_bytes_sum", plane, "type")+" / "+
					rate("pilot_xds_config_size_bytes_count", plane, "type"),
				"{{type}}",
			),
		},
		{
			title:   "Largest request",
			unit:    "bytes",
			queries: one(`max by (instance) (pilot_xds_recv_max{`+plane+`})`, "{{instance}}"),
		},
	}
}

func pushFailures() []graph {
	return []graph{
		{
			title: "Proxies with rejected configuration", help: "pilotctl nacks has the reasons.",
			queries: one(`sum by (instance) (meshpilot_rejects_standing{`+plane+`})`, "{{instance}}"),
		},
		{
			title:   "Rejections by type",
			unit:    "ops",
			help:    "Only after an error.",
			queries: one(rate("pilot_total_xds_rejects", plane, "type"), "{{type}}"),
		},
		{title: "Resources in quarantine", queries: one(`max(meshpilot_quarantined_resources{`+plane+`})`, "resources")},
		{
			title:   "Sent before clusters were acknowledged",
			unit:    "ops",
			help:    "Only after an error.",
			queries: one(rate("meshpilot_xds_late", plane, "type"), "{{type}}"),
		},
		{
			title:   "Responses that could not be written in time",
			unit:    "ops",
			queries: one(rate("pilot_xds_write_timeout", plane, "instance"), "{{instance}}"),
		},
		{
			title:   "Streams refused because too many connect",
			unit:    "ops",
			queries: one(rate("meshpilot_xds_streams_refused_total", plane, "instance"), "{{instance}}"),
		},
	}
}

func pushSharing() []graph {
	return []graph{
		{title: "Classes of proxies, and proxies", help: "All proxies of a class are sent the same bytes.", queries: []query{
			{`max(meshpilot_proxy_classes{` + plane + `})`, "classes"},
			{`max(sum by (instance) (pilot_xds{` + plane + `}))`, "proxies"},
		}},
		{
			title:   "Configuration of all proxies",
			unit:    "bytes",
			queries: one(`sum by (kind) (meshpilot_config_bytes{`+plane+`})`, "{{kind}}"),
		},
		{
			title: "Resources that were cached", unit: "percentunit",
			queries: one(
				`sum (rate(xds_cache_reads{`+plane+`, type="hit"}[$__rate_interval])) / `+
					rate("xds_cache_reads", plane, ""),
				"cached",
			),
		},
		{
			title:   "Resources translated",
			unit:    "ops",
			queries: one(rate("meshpilot_translated_resources_total", plane, "type"), "{{type}}"),
		},
	}
}
