package sds

import (
	"context"
	"maps"
	"slices"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	secretv3 "github.com/envoyproxy/go-control-plane/envoy/service/secret/v3"

	"github.com/meshpilot/meshpilot/internal/model/api"
)

// StreamSecrets serves a stream in SotW form. A response has the secrets that changed: others stay as they are (xDS
// protocol, "Deleting Resources").
func (s *Server) StreamSecrets(st secretv3.SecretDiscoveryService_StreamSecretsServer) error {
	return serve(s, st, form[*discoveryv3.DiscoveryRequest, *discoveryv3.DiscoveryResponse]{take: s.takeSotW, response: sotwResponse})
}

func sotwResponse(secrets []*discoveryv3.Resource, nonce string) *discoveryv3.DiscoveryResponse {
	out := &discoveryv3.DiscoveryResponse{TypeUrl: api.SecretType, Nonce: nonce, VersionInfo: secrets[0].GetVersion()}
	for _, one := range secrets {
		out.Resources = append(out.Resources, one.GetResource())
	}
	return out
}

func (s *Server) takeSotW(ctx context.Context, have subscription, r *discoveryv3.DiscoveryRequest, nonce string) error {
	if given := r.GetResponseNonce(); given != "" && nonce != "" && given != nonce {
		return nil // it answers an older response: one that answers the latest follows
	}
	if e := r.GetErrorDetail(); e != nil {
		s.refused(have, e.GetMessage())
	}
	// The request names all that Envoy wants from now on.
	names := r.GetResourceNames()
	maps.DeleteFunc(have, func(name, _ string) bool { return !slices.Contains(names, name) })
	for _, name := range names {
		if _, there := have[name]; there {
			continue
		}
		if err := s.add(ctx, have, name); err != nil {
			return err
		}
	}
	return nil
}
