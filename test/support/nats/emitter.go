package nats

import (
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// Emitter publishes routes as Cloud Foundry's route emitter does: each at an interval, and all when a
// router announces itself.
type Emitter struct {
	t    testing.TB
	conn *nats.Conn

	mu       sync.Mutex
	messages map[string]Route
	silent   bool
	started  int // number of announcements of routers
}

// Route is the payload of a registration, as the route emitter's documentation names its fields.
type Route struct {
	Host                string            `json:"host"`
	Port                int               `json:"port,omitempty"`
	TLSPort             int               `json:"tls_port,omitempty"`
	URIs                []string          `json:"uris"`
	Protocol            string            `json:"protocol,omitempty"`
	App                 string            `json:"app,omitempty"`
	StaleThreshold      int               `json:"stale_threshold_in_seconds,omitempty"`
	RouteServiceURL     string            `json:"route_service_url,omitempty"`
	PrivateInstanceID   string            `json:"private_instance_id,omitempty"`
	ServerCertDomainSAN string            `json:"server_cert_domain_san,omitempty"`
	IsolationSegment    string            `json:"isolation_segment,omitempty"`
	AvailabilityZone    string            `json:"availability_zone,omitempty"`
	Tags                map[string]string `json:"tags,omitempty"`
}

// StartEmitter starts an Emitter that repeats its routes at the interval. It ends with the test.
func (s *Server) StartEmitter(interval time.Duration) *Emitter {
	s.t.Helper()
	e := &Emitter{t: s.t, conn: s.Connect(), messages: map[string]Route{}}
	if _, err := e.conn.Subscribe("router.start", func(*nats.Msg) {
		e.mu.Lock()
		e.started++
		e.mu.Unlock()
		e.repeat()
	}); err != nil {
		s.t.Fatal(err)
	}
	if err := e.conn.Flush(); err != nil {
		s.t.Fatal(err)
	}
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			select {
			case <-stop:
				return
			case <-ticker.C:
				e.repeat()
			}
		}
	}()
	s.t.Cleanup(func() { close(stop); <-done })
	return e
}

// Register publishes a route under a name, which identifies it for Unregister and Forget, and repeats
// it from then on.
func (e *Emitter) Register(name string, r Route) {
	e.mu.Lock()
	e.messages[name] = r
	e.mu.Unlock()
	e.publish("router.register", r)
}

// Unregister publishes the removal of a route.
func (e *Emitter) Unregister(name string) { e.publish("router.unregister", e.Forget(name)) }

// Forget no longer repeats a route, as if the host of the emitter had failed. It returns the route.
func (e *Emitter) Forget(name string) Route {
	e.mu.Lock()
	defer e.mu.Unlock()
	r := e.messages[name]
	delete(e.messages, name)
	return r
}

// SetSilent makes the emitter publish nothing, or publish again.
func (e *Emitter) SetSilent(silent bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.silent = silent
}

// Announcements returns how often a router announced itself.
func (e *Emitter) Announcements() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.started
}

func (e *Emitter) repeat() {
	e.mu.Lock()
	list := slices.Collect(maps.Values(e.messages))
	e.mu.Unlock()
	for _, r := range list {
		e.publish("router.register", r)
	}
}

// publish publishes a message. While the server does not run, the message is lost, as that of a real
// emitter is.
func (e *Emitter) publish(subject string, r Route) {
	e.mu.Lock()
	silent := e.silent
	e.mu.Unlock()
	if silent {
		return
	}
	payload, err := json.Marshal(r)
	if err != nil {
		e.t.Errorf("encode a route: %v", err)
		return
	}
	_ = e.conn.Publish(subject, payload)
	_ = e.conn.Flush() // FlushTimeout of the library bounds it
}
