package telemetry_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	alsv3 "github.com/envoyproxy/go-control-plane/envoy/service/accesslog/v3"
	commonv1 "go.opentelemetry.io/proto/otlp/common/v1"
	logsv1 "go.opentelemetry.io/proto/otlp/logs/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// sink is a server of all services to which proxies send telemetry, by gRPC and (Zipkin) by HTTP.
type sink struct {
	grpcPort, httpPort string

	mu       sync.Mutex
	entries  []*alsv3.StreamAccessLogsMessage
	records  []*logsv1.LogRecord
	spans    []*tracev1.ResourceSpans
	zipkin   []string
	metadata []string // of zipkin's requests
}

// bytesCodec leaves messages as they are on the wire.
type bytesCodec struct{}

func (bytesCodec) Marshal(v any) ([]byte, error)      { return *v.(*[]byte), nil }
func (bytesCodec) Unmarshal(data []byte, v any) error { *v.(*[]byte) = slices.Clone(data); return nil }
func (bytesCodec) Name() string                       { return "proto" }

func newSink(t *testing.T) *sink {
	t.Helper()
	s := new(sink)
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.ForceServerCodec(bytesCodec{}), grpc.UnknownServiceHandler(s.serve))
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(l)
	}()
	t.Cleanup(func() {
		server.Stop()
		<-done
	})
	collector := httptest.NewServer(http.HandlerFunc(s.collect))
	t.Cleanup(collector.Close)
	_, s.grpcPort, _ = net.SplitHostPort(l.Addr().String())
	_, s.httpPort, _ = net.SplitHostPort(collector.Listener.Addr().String())
	return s
}

// serve takes messages of whatever method, and answers single ones with an empty message.
func (s *sink) serve(_ any, stream grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(stream)
	for {
		var body []byte
		if err := stream.RecvMsg(&body); err != nil {
			break
		}
		s.recordMessage(method, body)
		if strings.HasSuffix(method, "/Export") {
			break
		}
	}
	return stream.SendMsg(new([]byte))
}

func (s *sink) recordMessage(method string, body []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case strings.Contains(method, "AccessLogService"):
		m := new(alsv3.StreamAccessLogsMessage)
		if proto.Unmarshal(body, m) == nil {
			s.entries = append(s.entries, m)
		}
	case strings.Contains(method, "LogsService"): // the request has the same format
		m := new(logsv1.LogsData)
		if proto.Unmarshal(body, m) == nil {
			for _, r := range m.GetResourceLogs() {
				for _, scope := range r.GetScopeLogs() {
					s.records = append(s.records, scope.GetLogRecords()...)
				}
			}
		}
	case strings.Contains(method, "TraceService"):
		m := new(tracev1.TracesData)
		if proto.Unmarshal(body, m) == nil {
			s.spans = append(s.spans, m.GetResourceSpans()...)
		}
	}
}

// collect is Zipkin's collector.
func (s *sink) collect(_ http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.zipkin = append(s.zipkin, string(body))
	s.metadata = append(s.metadata, r.URL.Path+" "+r.Header.Get("x-tenant"))
}

// eventually waits until the condition holds for the sink, which is locked during the check.
func (s *sink) eventually(t *testing.T, what string, has func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		s.mu.Lock()
		ok := has()
		s.mu.Unlock()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			s.mu.Lock()
			defer s.mu.Unlock()
			t.Fatalf("%s did not come: entries %v, records %v, spans %v, zipkin %v %v", what,
				s.entries, s.records, s.spans, s.zipkin, s.metadata)
		}
	}
}

func attributeOf(list []*commonv1.KeyValue, key string) string {
	for _, kv := range list {
		if kv.GetKey() == key {
			return kv.GetValue().GetStringValue()
		}
	}
	return ""
}
