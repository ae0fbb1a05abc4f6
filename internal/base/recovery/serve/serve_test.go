package serve

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/meshpilot/meshpilot/internal/base/recovery"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type log struct {
	sync.Mutex
	bytes.Buffer
	counted int
}

func (l *log) Write(b []byte) (int, error) {
	l.Lock()
	defer l.Unlock()
	return l.Buffer.Write(b)
}

func (l *log) text() (string, int) {
	l.Lock()
	defer l.Unlock()
	return l.Buffer.String(), l.counted
}

func recorder() (*recovery.Recorder, *log) {
	l := &log{}
	return recovery.New(recovery.Options{Log: slog.New(slog.NewTextHandler(l, nil)), Count: func(string) { l.Lock(); l.counted++; l.Unlock() }}), l
}

// poisoned panics for the service "poison".
type poisoned struct {
	grpc_health_v1.UnimplementedHealthServer
}

func (poisoned) Check(_ context.Context, r *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	if r.Service == "poison" {
		panic("poisoned")
	}
	return &grpc_health_v1.HealthCheckResponse{Status: grpc_health_v1.HealthCheckResponse_SERVING}, nil
}

func (poisoned) Watch(r *grpc_health_v1.HealthCheckRequest, st grpc_health_v1.Health_WatchServer) error {
	if r.Service == "poison" {
		panic("poisoned")
	}
	return st.Send(&grpc_health_v1.HealthCheckResponse{Status: grpc_health_v1.HealthCheckResponse_SERVING})
}

func TestInterceptors(t *testing.T) {
	r, log := recorder()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(Interceptors(r)...)
	grpc_health_v1.RegisterHealthServer(server, poisoned{})
	go func() { _ = server.Serve(l) }()
	defer server.Stop()
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	client := grpc_health_v1.NewHealthClient(conn)
	watch := func(service string) error {
		st, err := client.Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: service})
		if err != nil {
			return err
		}
		_, err = st.Recv()
		return err
	}
	for range 2 {
		if _, err := client.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: "poison"}); status.Code(err) != codes.Internal || strings.Contains(err.Error(), "poison") {
			t.Errorf("unary call: %v", err)
		}
		if err := watch("poison"); status.Code(err) != codes.Internal {
			t.Errorf("stream: %v", err)
		}
		if _, err := client.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{}); err != nil {
			t.Errorf("the next call: %v", err)
		}
		if err := watch(""); err != nil {
			t.Errorf("the next stream: %v", err)
		}
	}
	text, counted := log.text()
	if counted != 4 || !strings.Contains(text, "method=/grpc.health.v1.Health/Check") || !strings.Contains(text, "method=/grpc.health.v1.Health/Watch") ||
		!strings.Contains(text, "peer=127.0.0.1") {
		t.Errorf("counted %d, logged %s", counted, text)
	}
}

func TestHandler(t *testing.T) {
	r, log := recorder()
	s := httptest.NewServer(Handler(r, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/before":
			panic("poisoned")
		case "/after":
			_, _ = io.WriteString(w, strings.Repeat("x", 100_000))
			panic("poisoned")
		case "/abort":
			panic(http.ErrAbortHandler)
		}
	})))
	defer s.Close()
	get := func(path string) (int, error) {
		response, err := s.Client().Get(s.URL + path)
		if err != nil {
			return 0, err
		}
		defer func() { _ = response.Body.Close() }()
		_, err = io.Copy(io.Discard, response.Body)
		return response.StatusCode, err
	}
	if code, err := get("/before"); err != nil || code != http.StatusInternalServerError {
		t.Errorf("before the response: %d, %v", code, err)
	}
	if _, err := get("/after"); err == nil {
		t.Error("a response that was cut short looks whole")
	}
	if _, err := get("/abort"); err == nil {
		t.Error("ErrAbortHandler did not abort")
	}
	if code, err := get("/"); err != nil || code != http.StatusOK {
		t.Errorf("the next request: %d, %v", code, err)
	}
	if text, counted := log.text(); counted != 2 || !strings.Contains(text, "path=/before") || !strings.Contains(text, "path=/after") {
		t.Errorf("counted %d, logged %s", counted, text)
	}
}
