package authorization

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/translate/destination"
	"github.com/meshpilot/meshpilot/internal/translate/pgv"
)

// findProvider returns the external authorizer of the mesh with the name, and "" as fault.
// Otherwise the fault says why it cannot be used: the mesh has no provider of that name, it is not
// an authorizer, there are several authorizers of that name, or its service is missing (s.Fault).
// Only in the last case is the provider returned too. s is the provider's service as the View sees
// it.
func (b *builder) findProvider(name string, s destination.Provider) (*meshconfig.MeshConfig_ExtensionProvider, string) {
	var found *meshconfig.MeshConfig_ExtensionProvider
	known := false
	for _, p := range b.settings.Mesh.GetExtensionProviders() {
		if p.GetName() != name {
			continue
		}
		known = true
		if addressOf(p) == nil {
			continue
		}
		if found != nil {
			return nil, fmt.Sprintf("the mesh has several external authorizers %q", name)
		}
		found = p
	}
	switch {
	case found != nil:
		return found, s.Fault
	case known:
		return nil, fmt.Sprintf("the extension provider %q is not an external authorizer", name)
	default:
		return nil, fmt.Sprintf("the mesh has no extension provider %q", name)
	}
}

// settingsFault returns the reason why the settings of the provider cannot be used, or "" if they
// can. Envoy would refuse the filters of all policies because of some of them. As in istiod,
// pathPrefix must begin with "/" and statusOnError must be a status code that Envoy knows, unless
// they are unset. Lists of headers must not have a lone "*". The provider's service must be usable
// (findProvider).
func (a authorizer) settingsFault() string {
	grpc, http := a.provider.GetEnvoyExtAuthzGrpc(), a.provider.GetEnvoyExtAuthzHttp()
	var reason string
	for _, status := range []string{grpc.GetStatusOnError(), http.GetStatusOnError()} {
		if _, ok := statusOnError(status); !ok {
			reason = fmt.Sprintf("statusOnError %q is not a status code that Envoy knows", status)
		}
	}
	prefix := http.GetPathPrefix()
	if _, err := url.Parse(prefix); err != nil || prefix != "" && !strings.HasPrefix(prefix, "/") {
		reason = fmt.Sprintf("pathPrefix %q is not a valid path that begins with \"/\"", prefix)
	}
	if slices.Contains(slices.Concat(
		http.GetIncludeRequestHeadersInCheck(),
		http.GetIncludeHeadersInCheck(), //nolint:staticcheck // deprecated, still in use
		http.GetHeadersToUpstreamOnAllow(), http.GetHeadersToDownstreamOnDeny(), http.GetHeadersToDownstreamOnAllow(),
	), present) {
		reason = `its lists of headers must not have "*" alone, only prefixes and suffixes`
	}
	if reason == "" {
		if err := pgv.Validate(a.checkConfig()); err != nil {
			reason = err.Error()
		}
	}
	if reason != "" {
		return fmt.Sprintf("the extension provider %q is invalid: %s", a.name, reason)
	}
	return ""
}
