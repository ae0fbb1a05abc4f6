package sds

import (
	"strconv"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	secretv3 "github.com/envoyproxy/go-control-plane/envoy/service/secret/v3"

	"github.com/meshpilot/meshpilot/internal/api"
)

// DeltaSecrets serves a stream in delta form.
func (s *Server) DeltaSecrets(stream secretv3.SecretDiscoveryService_DeltaSecretsServer) error {
	ctx := stream.Context()
	requests, failed := received(ctx, stream.Recv)
	have := subscription{}
	number := 0
	for {
		changed := s.o.Store.Changed()
		resources, err := s.due(have)
		if err != nil {
			return err
		}
		if len(resources) > 0 {
			number++
			r := &discoveryv3.DeltaDiscoveryResponse{TypeUrl: api.SecretType, Nonce: strconv.Itoa(number), Resources: resources}
			if err := stream.Send(r); err != nil {
				return err
			}
		}
		select {
		case r := <-requests:
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
		case <-changed:
		case err := <-failed:
			return ended(err)
		case <-ctx.Done():
			return nil
		}
	}
}
