package proxyconfig

import meshconfig "istio.io/api/mesh/v1alpha1"

// modernise moves the values of deprecated fields to those that took their place, where these are not set. What is
// logged, sent to the control plane and put into the bootstrap then has one spelling.
func modernise(c *meshconfig.ProxyConfig) {
	if address := c.GetZipkinAddress(); address != "" { //nolint:staticcheck // read here and nowhere else
		if c.Tracing == nil {
			c.Tracing = &meshconfig.Tracing{Tracer: &meshconfig.Tracing_Zipkin_{Zipkin: &meshconfig.Tracing_Zipkin{Address: address}}}
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
