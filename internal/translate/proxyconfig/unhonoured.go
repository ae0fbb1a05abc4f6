package proxyconfig

import (
	networkingv1beta1 "istio.io/api/networking/v1beta1"

	"github.com/meshpilot/meshpilot/internal/config"
)

// Unhonoured gives what of an object of the kind ProxyConfig has no effect yet, as Warnings without Key and Origin. All of it is
// for whoever starts a proxy, and not for the control plane to send: Envoy takes none of it while it runs.
func Unhonoured(spec *networkingv1beta1.ProxyConfig) []config.Problem {
	var found []config.Problem
	warn := func(field string, set bool, instead string) {
		if set {
			found = append(found, config.Problem{
				Field: "spec." + field, Severity: config.Warning,
				Reason: "has no effect: it is for proxies that are injected, which none are yet; " + instead,
			})
		}
	}
	const annotation = "set it in the annotation proxy.istio.io/config, or the environment variable PROXY_CONFIG, of the proxy"
	warn("selector", spec.GetSelector() != nil, "it selects nothing")
	warn("concurrency", spec.GetConcurrency() != nil, annotation)
	warn("environmentVariables", len(spec.GetEnvironmentVariables()) > 0, "set them in the environment of the proxy, or as proxyMetadata in its annotation proxy.istio.io/config")
	warn("image", spec.GetImage() != nil, "choose the image where the proxy is started")
	return found
}
