package server

import (
	"context"
	"errors"
	"io"
	"slices"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// echo is a Handler that returns the requested names, and ends the stream with an error when the
// name "end" is requested.
type echo struct {
	hellos chan Hello
	ended  chan error
}

func newEcho() *echo { return &echo{make(chan Hello, 10), make(chan error, 10)} }

func (e *echo) ServeSotW(_ context.Context, h Hello, s SotWStream) (err error) {
	e.hellos <- h
	defer func() { e.ended <- err }()
	for {
		r, err := s.Recv()
		if err != nil {
			return err
		}
		if slices.Contains(r.ResourceNames, "end") {
			return status.Error(codes.FailedPrecondition, "end was requested")
		}
		m := &discoveryv3.DiscoveryResponse{TypeUrl: r.TypeUrl, Nonce: "n"}
		for _, n := range r.ResourceNames {
			m.Resources = append(
				m.Resources,
				&anypb.Any{TypeUrl: r.TypeUrl, Value: append([]byte{10, byte(len(n))}, n...)},
			)
		}
		if err := s.Send(m); err != nil {
			return err
		}
	}
}

func (e *echo) ServeDelta(_ context.Context, h Hello, s DeltaStream) (err error) {
	e.hellos <- h
	defer func() { e.ended <- err }()
	for {
		r, err := s.Recv()
		if err != nil {
			return err
		}
		if slices.Contains(r.ResourceNamesSubscribe, "end") {
			return status.Error(codes.FailedPrecondition, "end was requested")
		}
		m := &discoveryv3.DeltaDiscoveryResponse{TypeUrl: r.TypeUrl, Nonce: "n"}
		for _, n := range r.ResourceNamesSubscribe {
			m.Resources = append(m.Resources, &discoveryv3.Resource{Name: n, Resource: new(anypb.Any)})
		}
		if err := s.Send(m); err != nil {
			return err
		}
	}
}

func generatorNode(id, generator string) *corev3.Node {
	return &corev3.Node{
		Id:       id,
		Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{"GENERATOR": structpb.NewStringValue(generator)}},
	}
}

func TestHandlersServeOtherClients(t *testing.T) {
	inBothModes(t, func(t *testing.T, mode stream.Mode) {
		e := newEcho()
		h := serve(t, 1, Options{Generators: map[string]Handler{"api": e}})
		c := h.connect(mode, generatorNode("some control plane", "api"))
		c.ask("x.io/Thing", []string{"a", "b"}, nil)
		if a := c.want("x.io/Thing"); !slices.Equal(a.names, []string{"a", "b"}) {
			t.Errorf("the first request was answered with %v", a.names)
		}
		c.ask("x.io/Thing", []string{"c"}, nil)
		if a := c.want("x.io/Thing"); !slices.Equal(a.names, []string{"c"}) {
			t.Errorf("the second request was answered with %v", a.names)
		}
		if hello := <-e.hellos; hello.Node.GetId() != "some control plane" || hello.Peer == "" || hello.Secure ||
			hello.Identities != nil {
			t.Errorf("Hello = %+v", hello)
		}
		if n := len(h.server.Connections()); n != 0 {
			t.Errorf("%d proxies are connected, want none", n)
		}
		c.ask("x.io/Thing", []string{"end"}, nil)
		if err := c.wantEnd(); status.Code(err) != codes.FailedPrecondition {
			t.Errorf("the stream ended with %v", err)
		}
	})
}

func TestHandlersEndWithTheirStreams(t *testing.T) {
	inBothModes(t, func(t *testing.T, mode stream.Mode) {
		e := newEcho()
		h := serve(t, 1, Options{Generators: map[string]Handler{"api": e}})
		begin := func() *client {
			c := h.connect(mode, generatorNode("n", "api"))
			c.ask("x.io/Thing", []string{"a"}, nil)
			c.want("x.io/Thing")
			return c
		}
		ended := func() error {
			select {
			case err := <-e.ended:
				return err
			case <-time.After(limit):
				t.Fatal("the handler did not end")
			}
			return nil
		}
		c := begin()
		c.end()
		if err := ended(); status.Code(err) != codes.Canceled && !errors.Is(err, context.Canceled) {
			t.Errorf("the handler of a disconnected client ended with %v", err)
		}
		c = begin()
		c.closeSend()
		if err := ended(); !errors.Is(err, io.EOF) {
			t.Errorf("the handler of a client that closed its sending direction ended with %v", err)
		}
		if err := c.wantEnd(); !errors.Is(err, io.EOF) {
			t.Errorf("the client's stream ended with %v", err)
		}
		c = begin()
		h.server.Stop()
		if err := ended(); err == nil {
			t.Error("the handler still runs after the server has stopped")
		}
		if err := c.wantEnd(); status.Code(err) != codes.Unavailable {
			t.Errorf("the client's stream ended with %v", err)
		}
	})
}

// TestUnknownGeneratorsAreProxies: a stream whose generator has no handler is served as a proxy.
func TestUnknownGeneratorsAreProxies(t *testing.T) {
	h := serve(t, 1, Options{Generators: map[string]Handler{"api": newEcho()}})
	node := testNode(1)
	node.Metadata.Fields["GENERATOR"] = structpb.NewStringValue("other")
	h.connect(stream.Delta, node).start()
}
