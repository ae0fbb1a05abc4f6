package main

import "github.com/meshpilot/meshpilot/internal/discovery"

// webhooks reads the settings of injection and validation, under Istio's names.
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

// named says whether a variable names something; without it there is a name by default, and an
// empty one is none.
func (e *environment) named(variable string) bool {
	v, ok := e.lookup(variable)
	return !ok || v != ""
}
