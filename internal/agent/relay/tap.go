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
	// askTimeout bounds a question to the control plane.
	askTimeout = 30 * time.Second
	// headerTimeout bounds how long a client may take to say what it wants.
	headerTimeout = 10 * time.Second
	// pagePath begins the paths of pages.
	pagePath = "/debug/"
)

// ServeQuestions passes questions of people beside the proxy on to the control plane, over HTTP (GET /debug/syncz) and over
// ADS, as Istio's command line asks them (istio.io/debug), until the context ends. It closes the listener.
func (r *Relay) ServeQuestions(ctx context.Context, l net.Listener) error {
	rpc := grpc.NewServer(serve.Interceptors(r.o.Recovery)...)
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(rpc, &questions{relay: r})
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
	// A stream of questions lasts as long as the client likes, so bodies have no limit of time.
	err := httpserver.Serve(ctx, l, httpserver.Options{
		Handler: handler, Protocols: protocols, HeaderTimeout: headerTimeout, BodyTimeout: httpserver.NoTimeout,
	})
	if err != nil {
		return fmt.Errorf("serve debug pages: %w", err)
	}
	rpc.Stop()
	return nil
}

// servePage answers with a page of the control plane.
func (r *Relay) servePage(w http.ResponseWriter, q *http.Request) {
	if site := q.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" && site != "none" || q.Header.Get("Origin") != "" {
		http.Error(w, "debug pages are not for pages of other sites", http.StatusForbidden) // some change something
		return
	}
	name := strings.TrimPrefix(q.URL.Path, pagePath)
	if q.URL.RawQuery != "" {
		name += "?" + q.URL.RawQuery
	}
	ctx, cancel := context.WithTimeout(q.Context(), askTimeout)
	defer cancel()
	resources, err := r.Ask(ctx, debugType, name)
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	case len(resources) == 0:
		http.Error(w, "the control plane has no such page, or not for this workload", http.StatusNotFound)
	default:
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(resources[0].GetResource().GetValue()) // the client went away
	}
}

// questions is ADS for nothing but questions.
type questions struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer
	relay *Relay
}

// StreamAggregatedResources answers one question after the other.
func (q *questions) StreamAggregatedResources(s discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error {
	for {
		in, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if !isDebug(in.GetTypeUrl()) {
			return status.Errorf(codes.InvalidArgument, "%s is not a question about the control plane: want %s", in.GetTypeUrl(), debugType)
		}
		if in.GetResponseNonce() != "" {
			continue // acknowledges an answer
		}
		out, err := q.answer(s.Context(), in)
		if err != nil {
			return status.Error(codes.Unavailable, err.Error())
		}
		if err := s.Send(out); err != nil {
			return err
		}
	}
}

func (q *questions) answer(ctx context.Context, in *discoveryv3.DiscoveryRequest) (*discoveryv3.DiscoveryResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	resources, err := q.relay.Ask(ctx, in.GetTypeUrl(), in.GetResourceNames()...)
	if err != nil {
		return nil, err
	}
	out := &discoveryv3.DiscoveryResponse{TypeUrl: in.GetTypeUrl(), Nonce: "agent"}
	for _, r := range resources {
		out.Resources = append(out.Resources, r.GetResource())
	}
	return out, nil
}
