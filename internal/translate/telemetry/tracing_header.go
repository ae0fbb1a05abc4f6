package telemetry

import (
	"fmt"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	meshconfig "istio.io/api/mesh/v1alpha1"
)

// header is a header of requests to a provider.
type header = meshconfig.MeshConfig_ExtensionProvider_HttpHeader

// headersOf returns the headers that proxies send to a provider, in their order. Headers that Envoy
// would refuse are left out. So are headers from a variable that the control plane's environment
// does not have, or whose value Envoy would refuse, with a Warning at the provider's name.
func (m *builder) headersOf(n named, list []*header) []*corev3.HeaderValue {
	var out []*corev3.HeaderValue
	for _, h := range list {
		if headerFault(h) != "" {
			continue
		}
		value, fault := m.headerValue(h)
		if fault != "" {
			m.addWarning(n.origin, fmt.Sprintf("provider %q: the header %s is not sent: %s", n.name, h.GetName(), fault))
			continue
		}
		out = append(out, &corev3.HeaderValue{Key: h.GetName(), Value: value})
	}
	return out
}

// headerValue returns the value of a header as a format. If the header names a variable, that is
// read from the control plane's environment. If Features.LookupEnv is nil, the format names the
// variable, which each proxy then reads from its own. fault is the reason why the variable cannot
// be used, or "".
func (m *builder) headerValue(h *header) (value, fault string) {
	value, name := h.GetValue(), h.GetEnvName()
	if name != "" {
		lookup := m.settings.Features.LookupEnv
		if lookup == nil {
			return "%ENVIRONMENT(" + name + ")%", ""
		}
		var isSet bool
		switch value, isSet = lookup(name); {
		case !isSet:
			return "", fmt.Sprintf("the environment of the control plane has no variable %s", name)
		case hasLineEnd(value):
			return "", fmt.Sprintf("the variable %s of the control plane has a value of several lines", name)
		}
	}
	return strings.ReplaceAll(value, "%", "%%"), ""
}

// headerFault returns why Envoy would refuse a header, or "": an invalid name, the name "host" in
// any case, a value with line ends or NUL, or an invalid name of an environment variable.
func headerFault(h *header) string {
	switch {
	case h.GetName() == "" || strings.ContainsFunc(h.GetName(), func(r rune) bool { return !isToken(r) }):
		return "is not the name of a header"
	case strings.EqualFold(h.GetName(), "host"):
		return "must be the host of the service"
	case hasLineEnd(h.GetValue()):
		return "has a value of several lines"
	case strings.ContainsAny(h.GetEnvName(), ")%\n"):
		return "names a variable that no environment has"
	default:
		return ""
	}
}

// hasLineEnd reports whether a value has a character that Envoy refuses in headers: CR, LF or NUL.
func hasLineEnd(value string) bool { return strings.ContainsAny(value, "\r\n\x00") }

// isToken reports whether a character may be part of a header's name (RFC 9110, 5.6.2).
func isToken(r rune) bool {
	return r > ' ' && r < 0x7f && !strings.ContainsRune("\"(),/:;<=>?@[\\]{}", r)
}
