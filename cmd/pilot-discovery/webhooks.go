package main

import "github.com/meshpilot/meshpilot/internal/kube/admission"

// applyWebhooks sets injection, validation, NativeSidecars and OpenShift from Istio's variables.
// Inject is true unless INJECT_ENABLED is false; an invalid value is an error of e.
// InjectionConfigs and ValidationConfigs are false only if the name of their webhook configuration
// is set but empty. o.Env returns any variable, "" if it is not set.
func (e *environment) applyWebhooks(o *admission.Settings) {
	o.Inject = e.boolOr("INJECT_ENABLED", true)
	o.InjectionConfigs = e.isSet("INJECTION_WEBHOOK_CONFIG_NAME")
	o.ValidationConfigs = e.isSet("VALIDATION_WEBHOOK_CONFIG_NAME")
	e.setText("ENABLE_NATIVE_SIDECARS", &o.NativeSidecars)
	platform := ""
	e.setText("PLATFORM", &platform)
	o.OpenShift = platform == "openshift"
	o.Env = func(name string) string {
		v, _ := e.lookup(name)
		return v
	}
}

// isSet reports whether the feature of a variable is enabled: it is set to a name, or unset, which
// selects a default name. An empty value disables it.
func (e *environment) isSet(variable string) bool {
	v, ok := e.lookup(variable)
	return !ok || v != ""
}
