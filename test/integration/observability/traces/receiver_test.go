package traces

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// receiver is a collector of OTLP that keeps spans.
type receiver struct {
	collector.UnimplementedTraceServiceServer

	mu       sync.Mutex
	spans    []*tracev1.Span
	services map[string]bool
}

// Export implements the collector's service.
func (r *receiver) Export(_ context.Context, request *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, from := range request.GetResourceSpans() {
		for _, a := range from.GetResource().GetAttributes() {
			if a.GetKey() == "service.name" {
				r.services[a.GetValue().GetStringValue()] = true
			}
		}
		for _, s := range from.GetScopeSpans() {
			r.spans = append(r.spans, s.GetSpans()...)
		}
	}
	return &collector.ExportTraceServiceResponse{}, nil
}

// ServeHTTP is the same over HTTP.
func (r *receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(request.Body)
	var m collector.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(body, &m)
	}
	if err != nil || request.URL.Path != "/v1/traces" {
		http.Error(w, "no traces in protobuf at /v1/traces", http.StatusBadRequest)
		return
	}
	answer, err := r.Export(request.Context(), &m)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	text, err := proto.Marshal(answer)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
	_, _ = w.Write(text) // a client that has gone
}

// received returns the spans of the trace whose push has a cause, by name; nil if there is none.
func (r *receiver) received(cause string) map[string]*tracev1.Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.spans {
		if s.GetName() != "push" || !hasCause(s, cause) {
			continue
		}
		list := map[string]*tracev1.Span{}
		for _, other := range r.spans {
			if string(other.GetTraceId()) == string(s.GetTraceId()) {
				list[other.GetName()] = other
			}
		}
		return list
	}
	return nil
}

// hasCause reports whether a span has the object among its causes.
func hasCause(s *tracev1.Span, cause string) bool {
	for _, a := range s.GetAttributes() {
		for _, v := range a.GetValue().GetArrayValue().GetValues() {
			if a.GetKey() == "meshpilot.push.causes" && v.GetStringValue() == cause {
				return true
			}
		}
	}
	return false
}

// serveGRPC and serveHTTP start a receiver and return its URL.
func serveGRPC(t *testing.T) (*receiver, string) {
	t.Helper()
	r := &receiver{services: map[string]bool{}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer()
	collector.RegisterTraceServiceServer(g, r)
	done := make(chan error, 1)
	go func() { done <- g.Serve(l) }()
	t.Cleanup(func() {
		g.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return r, "http://" + l.Addr().String()
}

func serveHTTP(t *testing.T) (*receiver, string) {
	t.Helper()
	r := &receiver{services: map[string]bool{}}
	s := httptest.NewServer(r)
	t.Cleanup(s.Close)
	return r, s.URL
}
