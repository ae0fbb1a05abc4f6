package sds

import (
	"context"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	secretv3 "github.com/envoyproxy/go-control-plane/envoy/service/secret/v3"

	"github.com/meshpilot/meshpilot/internal/model/api"
)

// DeltaSecrets serves a stream in delta form.
func (s *Server) DeltaSecrets(st secretv3.SecretDiscoveryService_DeltaSecretsServer) error {
	return serve(s, st, form[*discoveryv3.DeltaDiscoveryRequest, *discoveryv3.DeltaDiscoveryResponse]{
		take: s.takeDelta,
		response: func(secrets []*discoveryv3.Resource, nonce string) *discoveryv3.DeltaDiscoveryResponse {
			return &discoveryv3.DeltaDiscoveryResponse{TypeUrl: api.SecretType, Nonce: nonce, Resources: secrets}
		},
	})
}

func (s *Server) takeDelta(ctx context.Context, have subscription, r *discoveryv3.DeltaDiscoveryRequest, _ string) error {
	if e := r.GetErrorDetail(); e != nil {
		s.refused(have, e.GetMessage())
	}
	for _, name := range r.GetResourceNamesUnsubscribe() {
		delete(have, name)
	}
	for _, name := range r.GetResourceNamesSubscribe() {
		if err := s.add(ctx, have, name); err != nil {
			return err
		}
		// What Envoy still has from an earlier stream need not be sent again.
		have[name] = r.GetInitialResourceVersions()[name]
	}
	return nil
}
