package main

import "github.com/meshpilot/meshpilot/internal/discovery"

// webhooks reads the settings of injection and validation. The variables have Istio's names.
func (e *environment) webhooks(o *discovery.WebhookOptions) {
	o.NoInjection = !e.boolean("INJECT_ENABLED", true)
	o.InjectionConfigs = e.named("INJECTION_WEBHOOK_CONFIG_NAME")
	o.ValidationConfigs = e.named("VALIDATION_WEBHOOK_CONFIG_NAME")
	e.text("ENABLE_NATIVE_SIDECARS", &o.NativeSidecars)
	e.text("COMPLIANCE_POLICY", &o.Compliance)
	platform := ""
	e.text("PLATFORM", &platform)
	o.OpenShift = platform == "openshift"
	o.Env = func(name string) string {
		v, _ := e.lookup(name)
		return v
	}
}

// named reports whether the feature of a variable is enabled: it is set to a name, or unset, which
// selects a default name. An empty value disables it.
func (e *environment) named(variable string) bool {
	v, ok := e.lookup(variable)
	return !ok || v != ""
}
