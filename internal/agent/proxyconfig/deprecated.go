package proxyconfig

import meshconfig "istio.io/api/mesh/v1alpha1"

// migrateDeprecatedFields moves zipkinAddress to tracing and envoyMetricsServiceAddress to
// envoyMetricsService in c. So logs, node metadata and bootstrap use one spelling. If tracing or
// envoyMetricsService is set, whatever is in it, the deprecated field is only cleared.
func migrateDeprecatedFields(c *meshconfig.ProxyConfig) {
	if address := c.GetZipkinAddress(); address != "" { //nolint:staticcheck // the only use of the deprecated field
		if c.Tracing == nil {
			c.Tracing = &meshconfig.Tracing{Tracer: &meshconfig.Tracing_Zipkin_{
				Zipkin: &meshconfig.Tracing_Zipkin{Address: address},
			}}
		}
		c.ZipkinAddress = "" //nolint:staticcheck // as above
	}
	if address := c.GetEnvoyMetricsServiceAddress(); address != "" { //nolint:staticcheck // as above
		if c.EnvoyMetricsService == nil {
			c.EnvoyMetricsService = &meshconfig.RemoteService{Address: address}
		}
		c.EnvoyMetricsServiceAddress = "" //nolint:staticcheck // as above
	}
}
