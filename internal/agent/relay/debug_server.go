package relay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/meshpilot/meshpilot/internal/base/httpserver"
	"github.com/meshpilot/meshpilot/internal/base/recovery/serve"
)

const (
	// debugTimeout bounds a debug request to the control plane.
	debugTimeout = 30 * time.Second
	// headerTimeout bounds how long a client may take to send its request headers.
	headerTimeout = 10 * time.Second
	// pagePath is the path prefix of debug pages.
	pagePath = "/debug/"
)

// ServeDebug forwards debug requests of local clients to the control plane until ctx ends, and
// closes the listener. Clients use HTTP (GET /debug/syncz), or ADS (istio.io/debug) as Istio's
// command line does. Streams have no timeout. It returns an error only if serving ends earlier.
func (r *Relay) ServeDebug(ctx context.Context, l net.Listener) error {
	rpc := grpc.NewServer(serve.Interceptors(r.o.Recovery)...)
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(rpc, &debugService{relay: r})
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+pagePath, r.servePage)
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true) // by prior knowledge only: there is no upgrade
	handler := serve.Handler(r.o.Recovery, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.ProtoMajor == 2 && strings.HasPrefix(q.Header.Get("Content-Type"), "application/grpc") {
			rpc.ServeHTTP(w, q)
			return
		}
		mux.ServeHTTP(w, q)
	}))
	// Debug streams may last as long as the client wants, so bodies have no timeout.
	err := httpserver.Serve(ctx, l, httpserver.Options{
		Handler: handler, Protocols: protocols, HeaderTimeout: headerTimeout, BodyTimeout: httpserver.NoTimeout,
	})
	if err != nil {
		return fmt.Errorf("serve debug pages: %w", err)
	}
	rpc.Stop()
	return nil
}

// servePage serves a debug page of the control plane, with its query, as JSON. It responds 403 to
// cross-site requests of browsers, 404 for an unknown page, and 503 if QueryDebug fails or takes
// longer than debugTimeout.
func (r *Relay) servePage(w http.ResponseWriter, q *http.Request) {
	site := q.Header.Get("Sec-Fetch-Site")
	if site != "" && site != "same-origin" && site != "none" || q.Header.Get("Origin") != "" {
		http.Error(w, "cross-site requests of debug pages are forbidden", http.StatusForbidden) // some change state
		return
	}
	name := strings.TrimPrefix(q.URL.Path, pagePath)
	if q.URL.RawQuery != "" {
		name += "?" + q.URL.RawQuery
	}
	ctx, cancel := context.WithTimeout(q.Context(), debugTimeout)
	defer cancel()
	resources, err := r.QueryDebug(ctx, debugType, name)
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	case len(resources) == 0:
		http.Error(w, "the control plane has no such page, or not for this workload", http.StatusNotFound)
	default:
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(resources[0].GetResource().GetValue()) // fails if the client has disconnected
	}
}

// debugService is an ADS server for debug requests only.
type debugService struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer
	relay *Relay
}

// StreamAggregatedResources answers debug requests one by one. Other types are refused with
// InvalidArgument; ACKs are ignored. It returns Unavailable if the control plane does not answer.
// It returns nil when the client closes its side.
func (q *debugService) StreamAggregatedResources(
	s discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesServer,
) error {
	for {
		in, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if !isDebugType(in.GetTypeUrl()) {
			return status.Errorf(codes.InvalidArgument,
				"%s is not a debug request: want type %s", in.GetTypeUrl(), debugType)
		}
		if in.GetResponseNonce() != "" {
			continue // an ACK
		}
		out, err := q.handleRequest(s.Context(), in)
		if err != nil {
			return status.Error(codes.Unavailable, err.Error())
		}
		if err := s.Send(out); err != nil {
			return err
		}
	}
}

// handleRequest returns the control plane's response to a debug request. It returns an error if
// QueryDebug fails or takes longer than debugTimeout.
func (q *debugService) handleRequest(
	ctx context.Context, in *discoveryv3.DiscoveryRequest,
) (*discoveryv3.DiscoveryResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, debugTimeout)
	defer cancel()
	resources, err := q.relay.QueryDebug(ctx, in.GetTypeUrl(), in.GetResourceNames()...)
	if err != nil {
		return nil, err
	}
	out := &discoveryv3.DiscoveryResponse{TypeUrl: in.GetTypeUrl(), Nonce: "agent"}
	for _, r := range resources {
		out.Resources = append(out.Resources, r.GetResource())
	}
	return out, nil
}
