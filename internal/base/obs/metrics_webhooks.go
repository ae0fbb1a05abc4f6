package obs

import "github.com/prometheus/client_golang/prometheus"

// WebhookMetrics are the metrics of the webhooks.
type WebhookMetrics struct {
	// Injections counts requests, Injected, Skipped and Failed their results. InjectionTime is the
	// duration of one, in seconds.
	Injections, Injected, Skipped, Failed prometheus.Counter
	InjectionTime                         prometheus.Histogram
	// Valid and Invalid count objects by group, version and resource, Invalid by reason too.
	// HTTPErrors counts failed requests by status.
	Valid, Invalid, HTTPErrors *prometheus.CounterVec
	// Patches, PatchFailures and PatchRetries count writes of injection's webhook configurations by
	// name, ConfigUpdates and ConfigErrors writes of validation's.
	Patches, PatchFailures, PatchRetries *prometheus.CounterVec
	ConfigUpdates                        prometheus.Counter
	ConfigErrors                         *prometheus.CounterVec
}

// registerWebhooks creates the metrics of injection and validation, sets them in m.Webhooks and
// registers them in t.
func (m *Metrics) registerWebhooks(t *metricTable) {
	m.Webhooks = &WebhookMetrics{
		Injections: t.newCounter("sidecar_injection_requests_total", "Injection requests of the API server."),
		Injected:   t.newCounter("sidecar_injection_success_total", "Pods that were injected."),
		Skipped:    t.newCounter("sidecar_injection_skip_total", "Pods that were not to be injected."),
		Failed: t.newCounter("sidecar_injection_failure_total",
			"Pods that could not be injected and were rejected."),
		InjectionTime: t.newHistogram("sidecar_injection_time_seconds", "Duration of an injection request.",
			[]float64{.001, .005, .01, .05, .1, 1, 3, 5, 10, 20, 30, 60}),
		Valid: t.newCounterVec("galley_validation_passed",
			"Valid objects, by group, version and resource.", "group", "version", "resource"),
		Invalid: t.newCounterVec("galley_validation_failed",
			"Rejected objects, by group, version, resource and reason.",
			"group", "version", "resource", "reason"),
		HTTPErrors: t.newCounterVec("galley_validation_http_error",
			"Validation requests that failed, by HTTP status.", "status"),
		Patches: t.newCounterVec("webhook_patch_attempts_total",
			"Writes of the caBundle into webhook configurations of injection.", "name"),
		PatchFailures: t.newCounterVec("webhook_patch_failures_total",
			"Failed writes of the caBundle into webhook configurations of injection, by reason.", "name", "reason"),
		PatchRetries: t.newCounterVec("webhook_patch_retries_total",
			"Retried writes of the caBundle into webhook configurations of injection.", "name"),
		ConfigUpdates: t.newCounter("galley_validation_config_updates",
			"Writes of webhook configurations of validation."),
		ConfigErrors: t.newCounterVec("galley_validation_config_update_error",
			"Failed writes of webhook configurations of validation, by reason.", "reason"),
	}
}
