package marathon

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/meshpilot/meshpilot/pkg/adapter"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server answers as Marathon's documentation describes.
type server struct {
	*httptest.Server
	mu     sync.Mutex
	apps   map[string]string
	id     string // the framework ID
	status int
	reads  int
	events chan string // closed streams end with ""
}

func startServer(t *testing.T) *server {
	t.Helper()
	s := &server{apps: map[string]string{}, id: "first", events: make(chan string)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v2/events", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "event: event_stream_attached\ndata: {\"eventType\":\"event_stream_attached\"}\n\n")
		for {
			w.(http.Flusher).Flush()
			select {
			case <-r.Context().Done():
				return
			case e := <-s.events:
				if e == "" {
					return
				}
				fmt.Fprintf(w, "event: x\r\ndata: %s\r\n\r\n", e)
			}
		}
	})
	mux.HandleFunc("GET /v2/info", func(w http.ResponseWriter, _ *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		fmt.Fprintf(w, `{"name": "marathon", "version": "1.12.0", "elected": true, "frameworkId": %q}`, s.id)
	})
	mux.HandleFunc("GET /v2/apps", func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.status != 0 {
			w.WriteHeader(s.status)
			return
		}
		if r.URL.Query().Get("embed") != "apps.tasks" {
			t.Errorf("request %s", r.URL)
		}
		fmt.Fprintf(w, `{"apps": [%s]}`, strings.Join(slices.Collect(maps.Values(s.apps)), ","))
	})
	mux.HandleFunc("GET /v2/apps/{id...}", func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.reads++
		text, found := s.apps["/"+r.PathValue("id")]
		if !found {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		fmt.Fprintf(w, `{"app": %s}`, text)
	})
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func (s *server) set(id, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.apps[id] = text; text == "" {
		delete(s.apps, id)
	}
}

// sink has the reported services as text: "/api: api.1".
type sink struct {
	mu       sync.Mutex
	services map[string]string
	synced   bool
	// generation is that of the last SyncedGeneration.
	generation string
}

func (s *sink) Set(x adapter.Service) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var ids []string
	for _, i := range x.Instances {
		ids = append(ids, i.ID)
	}
	s.services[x.Name] = strings.Join(ids, " ")
}

func (s *sink) Delete(k adapter.ServiceKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.services, k.Name)
}

func (s *sink) Synced() { s.SyncedGeneration("") }

func (s *sink) SyncedGeneration(generation string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.generation = generation
	s.synced = true
}

func (*sink) Report(adapter.ServiceKey, error) {}

func (s *sink) await(t *testing.T, want map[string]string) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		s.mu.Lock()
		ok := s.synced && maps.Equal(s.services, want)
		got := maps.Clone(s.services)
		s.mu.Unlock()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the services are %v, want %v", got, want)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func startWatch(t *testing.T, p *Platform) (*sink, <-chan error) {
	t.Helper()
	s := &sink{services: map[string]string{}}
	ctx, cancel := context.WithCancel(t.Context())
	result, done := make(chan error, 1), make(chan struct{})
	transport := &http.Transport{}
	p.Client = &http.Client{Transport: transport}
	go func() { defer close(done); result <- p.Watch(ctx, s) }()
	t.Cleanup(func() { cancel(); <-done; transport.CloseIdleConnections() })
	return s, result
}

func TestWatch(t *testing.T) {
	m := startServer(t)
	m.set("/api", bridgeApp)
	s, result := startWatch(t, &Platform{URL: m.URL + "/"})
	s.await(t, map[string]string{"/api": "api.1"})
	m.set("/db", containerApp)
	m.events <- `{"eventType": "status_update_event", "taskStatus": "TASK_RUNNING", "appId": "/db"}`
	s.await(t, map[string]string{"/api": "api.1", "/db": "db.1"})
	m.set("/api", strings.ReplaceAll(bridgeApp, "api.1", "api.2"))
	m.events <- `{"eventType": "instance_changed_event", "runSpecId": "/api"}`
	s.await(t, map[string]string{"/api": "api.2", "/db": "db.1"})
	m.set("/api", "")
	m.events <- `{"eventType": "app_terminated_event", "appId": "/api"}`
	s.await(t, map[string]string{"/db": "db.1"})
	m.set("/db", "")
	m.set("/old", oldApp)
	m.events <- `{"eventType": "deployment_success", "id": "867ed450"}`
	s.await(t, map[string]string{"/old": "old.1"})
	m.mu.Lock()
	if m.reads != 3 {
		t.Errorf("%d applications were read for 3 events", m.reads)
	}
	m.mu.Unlock()
	m.events <- ""
	if err := <-result; err == nil || !strings.Contains(err.Error(), "event stream") {
		t.Errorf("the stream ended, and Watch returned %v", err)
	}
}

// TestWatchWithoutEvents changes applications without an event.
func TestWatchWithoutEvents(t *testing.T) {
	m := startServer(t)
	s, _ := startWatch(t, &Platform{URL: m.URL, Resync: 20 * time.Millisecond})
	s.await(t, map[string]string{})
	m.set("/api", bridgeApp)
	s.await(t, map[string]string{"/api": "api.1"})
	m.set("/api", "")
	s.await(t, map[string]string{})
}

// TestErrorsRemoveNothing has requests fail, and answers with something else.
func TestErrorsRemoveNothing(t *testing.T) {
	for name, edit := range map[string]func(*server){
		"status 500": func(m *server) { m.status = http.StatusInternalServerError },
		"status 401": func(m *server) { m.status = http.StatusUnauthorized },
		"no JSON":    func(m *server) { m.apps["/x"] = "<html>" },
	} {
		m := startServer(t)
		m.set("/api", bridgeApp)
		s, result := startWatch(t, &Platform{URL: m.URL})
		s.await(t, map[string]string{"/api": "api.1"})
		m.mu.Lock()
		edit(m)
		m.mu.Unlock()
		m.events <- `{"eventType": "deployment_success"}`
		if err := <-result; err == nil {
			t.Errorf("%s: Watch returned nil", name)
		}
		s.await(t, map[string]string{"/api": "api.1"})
	}
}

// TestLostData answers with no applications and with another framework ID, as a Marathon that lost its
// data does. Nothing is removed, and the next Watch has another generation.
func TestLostData(t *testing.T) {
	m := startServer(t)
	m.set("/api", bridgeApp)
	p := &Platform{URL: m.URL}
	s, result := startWatch(t, p)
	s.await(t, map[string]string{"/api": "api.1"})
	m.mu.Lock()
	m.apps, m.id = map[string]string{}, "second"
	m.mu.Unlock()
	m.events <- `{"eventType": "deployment_success"}`
	if err := <-result; err == nil || !strings.Contains(err.Error(), "another framework ID") {
		t.Errorf("Watch returned %v", err)
	}
	s.await(t, map[string]string{"/api": "api.1"})
	again, _ := startWatch(t, p)
	again.await(t, map[string]string{})
	if s.generation != "first" || again.generation != "second" {
		t.Errorf("the generations are %q and %q", s.generation, again.generation)
	}
}

// FuzzEvents reads arbitrary streams.
func FuzzEvents(f *testing.F) {
	f.Add("event: x\ndata: {\"eventType\":\"status_update_event\",\"appId\":\"/a\"}\n\n")
	f.Add("data:{}\r\ndata: [\n:\n\n")
	f.Fuzz(func(t *testing.T, stream string) {
		if err := readEvents(strings.NewReader(stream), func(e event) {
			if e.Type == "" {
				t.Errorf("event %+v", e)
			}
		}); err == nil {
			t.Error("the stream ended without an error")
		}
	})
}
