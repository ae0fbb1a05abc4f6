package sds

import (
	"strconv"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	secretv3 "github.com/envoyproxy/go-control-plane/envoy/service/secret/v3"

	"github.com/meshpilot/meshpilot/internal/api"
)

// StreamSecrets serves a stream in SotW form. An answer has the secrets that changed: others stay as they are (xDS
// protocol, "Deleting Resources").
func (s *Server) StreamSecrets(stream secretv3.SecretDiscoveryService_StreamSecretsServer) error {
	ctx := stream.Context()
	requests, failed := received(ctx, stream.Recv)
	have := subscription{}
	nonce, number := "", 0
	for {
		changed := s.o.Store.Changed()
		resources, err := s.due(have)
		if err != nil {
			return err
		}
		if len(resources) > 0 {
			number++
			nonce = strconv.Itoa(number)
			r := &discoveryv3.DiscoveryResponse{TypeUrl: api.SecretType, Nonce: nonce, VersionInfo: resources[0].GetVersion()}
			for _, one := range resources {
				r.Resources = append(r.Resources, one.GetResource())
			}
			if err := stream.Send(r); err != nil {
				return err
			}
		}
		select {
		case r := <-requests:
			if given := r.GetResponseNonce(); given != "" && nonce != "" && given != nonce {
				continue // it answers an older response: its successor follows
			}
			if e := r.GetErrorDetail(); e != nil {
				s.refused(have, e.GetMessage())
			}
			if have, err = s.replaced(stream, have, r.GetResourceNames()); err != nil {
				return err
			}
		case <-changed:
		case err := <-failed:
			return ended(err)
		case <-ctx.Done():
			return nil
		}
	}
}

// replaced is the subscription to exactly those names.
func (s *Server) replaced(stream secretv3.SecretDiscoveryService_StreamSecretsServer, have subscription, names []string) (subscription, error) {
	next := subscription{}
	for _, name := range names {
		if sent, ok := have[name]; ok {
			next[name] = sent
		} else if err := s.add(stream.Context(), next, name); err != nil {
			return nil, err
		}
	}
	return next, nil
}
