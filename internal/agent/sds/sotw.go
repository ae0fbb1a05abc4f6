package sds

import (
	"context"
	"maps"
	"slices"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	secretv3 "github.com/envoyproxy/go-control-plane/envoy/service/secret/v3"

	"github.com/meshpilot/meshpilot/internal/model/api"
)

// StreamSecrets serves an SDS stream in the SotW protocol until the client closes it, see
// serveStream. A response holds only the secrets that changed; Envoy keeps the others (xDS
// protocol, "Deleting Resources").
func (s *Server) StreamSecrets(st secretv3.SecretDiscoveryService_StreamSecretsServer) error {
	return serveStream(s, st, protocol[*discoveryv3.DiscoveryRequest, *discoveryv3.DiscoveryResponse]{
		handleRequest: s.handleSotWRequest, newResponse: newSotWResponse,
	})
}

// newSotWResponse returns a response with secrets, at least one. Its version is the first secret's.
func newSotWResponse(secrets []*discoveryv3.Resource, nonce string) *discoveryv3.DiscoveryResponse {
	out := &discoveryv3.DiscoveryResponse{
		TypeUrl: api.SecretType, Nonce: nonce, VersionInfo: secrets[0].GetVersion(),
	}
	for _, one := range secrets {
		out.Resources = append(out.Resources, one.GetResource())
	}
	return out
}

// handleSotWRequest replaces the subscription of a stream by the names of a request. A request with
// a stale nonce is ignored, and a rejection (NACK) is recorded. It subscribes to new names, and
// returns the error of that; names that stay are not sent again.
func (s *Server) handleSotWRequest(
	ctx context.Context, have subscription, r *discoveryv3.DiscoveryRequest, nonce string,
) error {
	if given := r.GetResponseNonce(); given != "" && nonce != "" && given != nonce {
		return nil // a stale nonce: the request that answers the latest response follows
	}
	if e := r.GetErrorDetail(); e != nil {
		s.recordNACK(have, e.GetMessage())
	}
	// The request names all secrets that Envoy subscribes to from now on.
	names := r.GetResourceNames()
	maps.DeleteFunc(have, func(name, _ string) bool { return !slices.Contains(names, name) })
	for _, name := range names {
		if _, there := have[name]; there {
			continue
		}
		if err := s.subscribe(ctx, have, name); err != nil {
			return err
		}
	}
	return nil
}
