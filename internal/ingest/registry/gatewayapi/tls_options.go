package gatewayapi

import (
	"maps"
	"slices"
	"strings"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/config"
)

// Keys of spec.listeners.tls.options, as in Istio.
const (
	// optionTerminateMode is the TLS mode of a listener that terminates TLS: MUTUAL, OPTIONAL_MUTUAL or
	// ISTIO_MUTUAL, which uses the certificate of the workload.
	optionTerminateMode = "gateway.istio.io/tls-terminate-mode"
	// optionCipherSuites are the names of cipher suites, separated by commas.
	optionCipherSuites = "gateway.istio.io/tls-cipher-suites"
)

// terminateMode returns the TLS mode that the options of a listener select. ok is false without the
// option, for an unknown value, and for a listener that does not terminate TLS.
func (l *listener) terminateMode() (mode networking.ServerTLSSettings_TLSmode, ok bool) {
	if l.spec.TLS == nil || !l.usesCertificates() {
		return 0, false
	}
	switch l.spec.TLS.Options[optionTerminateMode] {
	case "MUTUAL":
		return networking.ServerTLSSettings_MUTUAL, true
	case "OPTIONAL_MUTUAL":
		return networking.ServerTLSSettings_OPTIONAL_MUTUAL, true
	case "ISTIO_MUTUAL":
		return networking.ServerTLSSettings_ISTIO_MUTUAL, true
	default:
		return 0, false
	}
}

// usesWorkloadCertificate reports whether the listener terminates TLS with the certificate of its
// proxy, so that it needs no Secret.
func (l *listener) usesWorkloadCertificate() bool {
	mode, ok := l.terminateMode()
	return ok && mode == networking.ServerTLSSettings_ISTIO_MUTUAL
}

// applyOptions sets the mode and cipher suites that the options of a listener select. With
// spec.tls.frontend of the Gateway, the CA certificates are those of frontend, and otherwise those
// of the listener's Secret.
func (l *listener) applyOptions(to *networking.ServerTLSSettings) {
	mode, ok := l.terminateMode()
	switch {
	case ok && mode == networking.ServerTLSSettings_ISTIO_MUTUAL:
		to.Reset()
		to.Mode = mode
	case ok:
		to.Mode, to.InsecureSkipVerify = mode, nil
	}
	for suite := range strings.SplitSeq(string(l.spec.TLS.Options[optionCipherSuites]), ",") {
		if suite = strings.TrimSpace(suite); suite != "" {
			to.CipherSuites = append(to.CipherSuites, suite)
		}
	}
}

// unsupportedOptions returns a verdict for each option of a listener that has no effect.
func (l *listener) unsupportedOptions() (list []verdict) {
	if l.spec.TLS == nil {
		return nil
	}
	for _, k := range slices.Sorted(maps.Keys(l.spec.TLS.Options)) {
		if _, ok := l.terminateMode(); k == optionTerminateMode && ok || k == optionCipherSuites && l.usesCertificates() {
			continue
		}
		list = append(list, unsupported("tls.options: %s: %q has no effect", k, l.spec.TLS.Options[k]))
	}
	return list
}

// policyOptionProblems returns a Warning for each option of a BackendTLSPolicy: none is supported.
func policyOptionProblems(object *config.Config) (list []config.Problem) {
	options := config.Spec[*gatewayv1.BackendTLSPolicy](object).Spec.Options
	for _, k := range slices.Sorted(maps.Keys(options)) {
		list = append(list, newProblem(object, "", config.Warning, unsupported("spec.options: %s: %q has no effect", k, options[k])))
	}
	return list
}
