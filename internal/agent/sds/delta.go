package sds

import (
	"context"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	secretv3 "github.com/envoyproxy/go-control-plane/envoy/service/secret/v3"

	"github.com/meshpilot/meshpilot/internal/model/api"
)

// DeltaSecrets serves an SDS stream in the delta protocol until the client closes it, see
// serveStream. Removed secrets are not reported.
func (s *Server) DeltaSecrets(st secretv3.SecretDiscoveryService_DeltaSecretsServer) error {
	return serveStream(s, st, protocol[*discoveryv3.DeltaDiscoveryRequest, *discoveryv3.DeltaDiscoveryResponse]{
		handleRequest: s.handleDeltaRequest,
		newResponse: func(secrets []*discoveryv3.Resource, nonce string) *discoveryv3.DeltaDiscoveryResponse {
			return &discoveryv3.DeltaDiscoveryResponse{TypeUrl: api.SecretType, Nonce: nonce, Resources: secrets}
		},
	})
}

// handleDeltaRequest applies a request to the subscription have, and watches the files of new
// names. A subscribed name is sent again unless the request has its current version. A rejection
// (NACK) is recorded, and the nonce is ignored. It returns an error if a name cannot be added.
func (s *Server) handleDeltaRequest(
	ctx context.Context, have subscription, r *discoveryv3.DeltaDiscoveryRequest, _ string,
) error {
	if e := r.GetErrorDetail(); e != nil {
		s.recordNACK(have, e.GetMessage())
	}
	for _, name := range r.GetResourceNamesUnsubscribe() {
		delete(have, name)
	}
	for _, name := range r.GetResourceNamesSubscribe() {
		if err := s.subscribe(ctx, have, name); err != nil {
			return err
		}
		// Secrets that Envoy still has from an earlier stream are not sent again.
		have[name] = r.GetInitialResourceVersions()[name]
	}
	return nil
}
