package admission

import (
	"fmt"
	"strconv"
)

// Settings configure the webhooks that the API server calls on port 15017. Nothing is served
// without an API server or without a certificate.
type Settings struct {
	// Inject serves /inject (default true; INJECT_ENABLED).
	Inject bool
	// InjectionConfigs and ValidationConfigs keep the webhook configurations of this revision up to
	// date (default false). They are found by their label, istio.io/rev. The variables
	// INJECTION_WEBHOOK_CONFIG_NAME and VALIDATION_WEBHOOK_CONFIG_NAME contain names in Istio;
	// here, an empty value disables the option and any other has no effect.
	InjectionConfigs, ValidationConfigs bool
	// NativeSidecars is true, false or auto, which is the default and enables them if all nodes
	// support them (ENABLE_NATIVE_SIDECARS).
	NativeSidecars string
	// OpenShift runs proxies as the user in the annotations of their namespace, because no other is
	// permitted there (set by PLATFORM=openshift).
	OpenShift bool
	// Env looks up variables for the template function env. If nil, none is set.
	Env func(string) string
}

// Validate returns an error unless NativeSidecars is auto, empty, or a boolean of
// strconv.ParseBool.
func (s Settings) Validate() error {
	if _, err := strconv.ParseBool(s.NativeSidecars); err != nil && s.NativeSidecars != "" &&
		s.NativeSidecars != "auto" {
		return fmt.Errorf("ENABLE_NATIVE_SIDECARS %q: want auto, true or false", s.NativeSidecars)
	}
	return nil
}

// nativeSidecars returns the value of NativeSidecars. known is false if the nodes decide.
func (s Settings) nativeSidecars() (native, known bool) {
	native, err := strconv.ParseBool(s.NativeSidecars)
	return native, err == nil
}
