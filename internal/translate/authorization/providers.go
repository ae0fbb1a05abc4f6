package authorization

import (
	meshconfig "istio.io/api/mesh/v1alpha1"
	security "istio.io/api/security/v1beta1"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/translate/destination"
	"github.com/meshpilot/meshpilot/internal/translate/memo"
)

// providersOf returns the external authorizers that the policies name, in the order of the mesh's
// providers, with their services as the View sees them. It leaves out names that the mesh does not
// define, and providers that are not authorizers.
func providersOf(v *view.View, policies []*config.Config) memo.List[destination.NamedProvider] {
	named := map[string]bool{}
	for _, c := range policies {
		named[config.Spec[*security.AuthorizationPolicy](c).GetProvider().GetName()] = true
	}
	var list []destination.NamedProvider
	for _, p := range v.Settings.Mesh.GetExtensionProviders() {
		if at := addressOf(p); at != nil && named[p.GetName()] {
			list = append(
				list,
				destination.NamedProvider{
					Name:     p.GetName(),
					Provider: destination.ProviderOf(v, at.GetService(), at.GetPort()),
				},
			)
		}
	}
	return memo.ListOf(list)
}

type address interface {
	GetService() string
	GetPort() uint32
}

// addressOf returns the service and port of an external authorizer, called over HTTP or gRPC, or
// nil if the provider is of another kind.
func addressOf(p *meshconfig.MeshConfig_ExtensionProvider) address {
	switch x := p.GetProvider().(type) {
	case *meshconfig.MeshConfig_ExtensionProvider_EnvoyExtAuthzHttp:
		return x.EnvoyExtAuthzHttp
	case *meshconfig.MeshConfig_ExtensionProvider_EnvoyExtAuthzGrpc:
		return x.EnvoyExtAuthzGrpc
	default:
		return nil
	}
}
