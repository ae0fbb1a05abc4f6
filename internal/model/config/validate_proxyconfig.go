package config

import (
	networkingv1beta1 "istio.io/api/networking/v1beta1"
)

// checkProxyConfig adds Errors for a negative concurrency, an environment variable without a name,
// and one whose value has more than 2048 bytes. The check of the selector (checkPolicySelector)
// adds Errors and Warnings.
func (r *report) checkProxyConfig(at path, config *networkingv1beta1.ProxyConfig) {
	r.checkPolicySelector(at.Child("selector"), config.GetSelector())
	r.checkNonNegative(at.Child("concurrency"), config.GetConcurrency().GetValue())
	for _, name := range sortedKeys(config.GetEnvironmentVariables()) {
		here := at.Child("environmentVariables").Key(name)
		if name == "" {
			r.errorf(here, "a variable name is required")
		}
		if size := len(config.GetEnvironmentVariables()[name]); size > 2048 {
			r.errorf(here, "has %d bytes, at most 2048 are allowed", size)
		}
	}
}
