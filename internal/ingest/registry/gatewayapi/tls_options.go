package gatewayapi

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"istio.io/api/label"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// Keys of spec.listeners.tls.options, as in Istio.
const (
	// optionTerminateMode is the TLS mode of a listener that terminates TLS: MUTUAL,
	// OPTIONAL_MUTUAL, or ISTIO_MUTUAL and ISTIO_SIMPLE, which use the certificate of the workload.
	optionTerminateMode = "gateway.istio.io/tls-terminate-mode"
	// optionCipherSuites are the names of cipher suites, separated by commas.
	optionCipherSuites = "gateway.istio.io/tls-cipher-suites"
	// optionProtocol has the value autoPassthrough for a listener of an east-west gateway, which
	// forwards TLS connections to the service that their server name encodes.
	optionProtocol  = "gateway.istio.io/listener-protocol"
	autoPassthrough = "auto-passthrough"
)

// terminateModes returns the TLS mode for each supported value of optionTerminateMode.
func terminateModes() map[gatewayv1.AnnotationValue]networking.ServerTLSSettings_TLSmode {
	return map[gatewayv1.AnnotationValue]networking.ServerTLSSettings_TLSmode{
		"MUTUAL":          networking.ServerTLSSettings_MUTUAL,
		"OPTIONAL_MUTUAL": networking.ServerTLSSettings_OPTIONAL_MUTUAL,
		"ISTIO_MUTUAL":    networking.ServerTLSSettings_ISTIO_MUTUAL,
		"ISTIO_SIMPLE":    networking.ServerTLSSettings_SIMPLE,
	}
}

// terminateMode returns the TLS mode that the options of a listener select. ok is false without the
// option, for an unknown value, and for a listener that does not terminate TLS.
func (l *listener) terminateMode() (mode networking.ServerTLSSettings_TLSmode, ok bool) {
	if l.spec.TLS == nil || !l.usesCertificates() {
		return 0, false
	}
	mode, ok = terminateModes()[l.spec.TLS.Options[optionTerminateMode]]
	return mode, ok
}

// usesWorkloadCertificate reports whether the listener terminates TLS with the certificate of its
// proxy, so that it needs no Secret. Its option optionTerminateMode then is ISTIO_MUTUAL or
// ISTIO_SIMPLE.
func (l *listener) usesWorkloadCertificate() bool {
	mode, ok := l.terminateMode()
	return ok && (mode == networking.ServerTLSSettings_ISTIO_MUTUAL || mode == networking.ServerTLSSettings_SIMPLE)
}

// isAutoPassthrough reports whether a listener with TLS mode Passthrough forwards connections by
// the service in their server name. The option selects it. In a Gateway with the label of a
// network, so does the port of network gateways, which a label can override, as in Istio.
func (l *listener) isAutoPassthrough(labels map[string]string) bool {
	if !l.isPassthrough() {
		return false
	}
	if l.spec.TLS.Options[optionProtocol] == autoPassthrough {
		return true
	}
	port := strconv.Itoa(mesh.DefaultNetworkGatewayPort)
	if p, ok := labels[label.NetworkingGatewayPort.Name]; ok {
		port = p
	}
	_, ok := labels[label.TopologyNetwork.Name]
	return ok && strconv.Itoa(int(l.spec.Port)) == port
}

// applyOptions applies the TLS mode and the cipher suites in the options of a listener to its
// ServerTLSSettings. ISTIO_MUTUAL and ISTIO_SIMPLE replace all other settings, because the
// certificate is the workload's. MUTUAL and OPTIONAL_MUTUAL keep the certificates, and clear
// InsecureSkipVerify: clients are then verified with the CA certificates of the Gateway's
// spec.tls.frontend, which the caller has set, or else of the listener's Secret. Without a mode
// (terminateMode) only the cipher suites are set. Options with unknown values are reported
// elsewhere (checkOptions, ignoredOptions).
func (l *listener) applyOptions(to *networking.ServerTLSSettings) {
	mode, ok := l.terminateMode()
	switch {
	case l.usesWorkloadCertificate():
		to.Reset()
		to.Mode = mode
		if mode == networking.ServerTLSSettings_SIMPLE {
			to.CredentialName = mesh.WorkloadCredential
		}
	case ok:
		to.Mode, to.InsecureSkipVerify = mode, nil
	}
	to.CipherSuites = l.cipherSuites()
}

// cipherSuites returns the names of cipher suites in optionCipherSuites, known or not, or nil if
// there are none.
func (l *listener) cipherSuites() (names []string) {
	for name := range strings.SplitSeq(string(l.spec.TLS.Options[optionCipherSuites]), ",") {
		if name = strings.TrimSpace(name); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// checkOptions returns a failed verdict if an option of a listener that terminates TLS has a value
// whose omission would admit more clients: an unknown mode, or only cipher suites that Envoy does
// not know. Otherwise the verdict passes. Istio ignores such values.
func (l *listener) checkOptions() verdict {
	if l.spec.TLS == nil || !l.usesCertificates() {
		return verdict{}
	}
	text, present := l.spec.TLS.Options[optionTerminateMode]
	if _, ok := l.terminateMode(); present && !ok {
		return unsupported("tls.options: %s: %q is not supported; want %s", optionTerminateMode, text, joinModes())
	}
	if names := l.cipherSuites(); len(names) > 0 && len(config.KnownCipherSuites(names)) == 0 {
		return unsupported("tls.options: %s: Envoy supports none of %q", optionCipherSuites, strings.Join(names, ", "))
	}
	return verdict{}
}

// joinModes returns the supported values of optionTerminateMode, sorted and joined with commas, for
// messages.
func joinModes() string {
	var names []string
	for name := range terminateModes() {
		names = append(names, string(name))
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// ignoredOptions returns a failed verdict for each option of the listener that has no effect,
// sorted by name, or nil if there are none. It also returns nil if checkOptions fails. Cipher
// suites that Envoy does not know are reported one by one.
func (l *listener) ignoredOptions() (list []verdict) {
	if l.spec.TLS == nil || !l.checkOptions().ok() {
		return nil
	}
	for _, k := range slices.Sorted(maps.Keys(l.spec.TLS.Options)) {
		value := l.spec.TLS.Options[k]
		switch {
		case k == optionCipherSuites && l.usesCertificates():
			known := config.KnownCipherSuites(l.cipherSuites())
			for _, name := range l.cipherSuites() {
				if !slices.Contains(known, name) {
					list = append(list, unsupported("tls.options: %s: Envoy does not support %q", k, name))
				}
			}
		case k == optionTerminateMode && l.usesCertificates():
		case k == optionProtocol && value == autoPassthrough && l.isPassthrough():
		default:
			list = append(list, unsupported("tls.options: %s: %q has no effect", k, value))
		}
	}
	return list
}

// policyOptionProblems returns a Warning for each option of a BackendTLSPolicy, sorted by name:
// none is supported.
func policyOptionProblems(object *config.Config) (list []config.Problem) {
	options := config.Spec[*gatewayv1.BackendTLSPolicy](object).Spec.Options
	for _, k := range slices.Sorted(maps.Keys(options)) {
		list = append(list, newProblem(object, "", config.Warning,
			unsupported("spec.options: %s: %q has no effect", k, options[k])))
	}
	return list
}
