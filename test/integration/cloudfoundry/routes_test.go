package cloudfoundry

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/ingest/registry/cloudfoundry"
	"github.com/meshpilot/meshpilot/test/support/nats"
)

// TestRoutes registers, changes and withdraws routes. The emitter repeats them only when asked, so
// routes from before the start of the registry show that it announces itself.
func TestRoutes(t *testing.T) {
	nats.Require(t)
	s := nats.Start(t, nats.Options{})
	e := s.StartEmitter(time.Hour)
	e.Register("web-1", instanceOf("web.test", "10.0.0.1"))
	f := follow(t, s, func(o *cloudfoundry.Settings) {
		o.StaleThreshold = time.Hour // this emitter does not repeat routes
	})
	f.await("web.test: 10.0.0.1:80")
	e.Register("web-2", instanceOf("web.test", "10.0.0.2"))
	e.Register("api", nats.Route{Host: "10.0.0.3", Port: 8080, URIs: []string{"api.test", "api.test/v1"}})
	f.await("api.test: 10.0.0.3:8080; api.test/v1: 10.0.0.3:8080; web.test: 10.0.0.1:80 10.0.0.2:80")
	e.Unregister("web-1") // applied at once, since no route expires
	f.await("api.test: 10.0.0.3:8080; api.test/v1: 10.0.0.3:8080; web.test: 10.0.0.2:80")
	e.Register("api", nats.Route{Host: "10.0.0.3", Port: 8080, URIs: []string{"api.test"}, RouteServiceURL: "https://waf.test"})
	f.await("api.test/v1: 10.0.0.3:8080; web.test: 10.0.0.2:80")
	f.awaitProblem("api.test", "route_service_url")
	e.Register("api", nats.Route{Host: "10.0.0.3", Port: 8080, URIs: []string{"api.test"}})
	f.await("api.test: 10.0.0.3:8080; api.test/v1: 10.0.0.3:8080; web.test: 10.0.0.2:80")
	f.awaitProblem("api.test", "")
}

// TestGreeting requests the interval as an emitter does that starts after the registry.
func TestGreeting(t *testing.T) {
	nats.Require(t)
	s := nats.Start(t, nats.Options{})
	f := follow(t, s, nil)
	f.await("")
	reply, err := s.Connect().Request("router.greet", nil, patience)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Interval int `json:"minimumRegisterIntervalInSeconds"`
		Prune    int `json:"pruneThresholdInSeconds"`
	}
	if err := json.Unmarshal(reply.Data, &got); err != nil || got.Interval != 1 || got.Prune != 2 {
		t.Errorf("the reply is %s (%v)", reply.Data, err)
	}
}

// TestExpiry stops repeating one of several routes.
func TestExpiry(t *testing.T) {
	nats.Require(t)
	s := nats.Start(t, nats.Options{})
	e := s.StartEmitter(interval / 2)
	for name, address := range map[string]string{"web-1": "10.0.0.1", "web-2": "10.0.0.2", "web-3": "10.0.0.3"} {
		e.Register(name, instanceOf("web.test", address))
	}
	f := follow(t, s, nil)
	f.await("web.test: 10.0.0.1:80 10.0.0.2:80 10.0.0.3:80")
	e.Forget("web-2")
	f.await("web.test: 10.0.0.1:80 10.0.0.3:80")
}

// TestEmittersFail: while the emitter publishes nothing for many intervals, its routes are
// retained.
func TestEmittersFail(t *testing.T) {
	nats.Require(t)
	s := nats.Start(t, nats.Options{})
	e := s.StartEmitter(interval / 2)
	e.Register("web-1", instanceOf("web.test", "10.0.0.1"))
	e.Register("api-1", instanceOf("api.test", "10.0.0.2"))
	f := follow(t, s, nil)
	f.await("api.test: 10.0.0.2:80; web.test: 10.0.0.1:80")
	e.SetSilent(true)
	f.awaitProblem("", "no longer repeated")
	time.Sleep(5 * interval) // nothing must change, so there is no event to wait for
	f.requireNoRemoval()
	e.SetSilent(false)
	f.awaitProblem("", "")
	f.await("api.test: 10.0.0.2:80; web.test: 10.0.0.1:80")
	f.requireNoRemoval()
}

// TestInvalidMessages sends messages that are no registrations. The problem names the last one, and
// is resolved when that is no longer repeated.
func TestInvalidMessages(t *testing.T) {
	nats.Require(t)
	s := nats.Start(t, nats.Options{})
	e := s.StartEmitter(interval / 2)
	e.Register("web", instanceOf("web.test", "10.0.0.1"))
	f := follow(t, s, nil)
	f.await("web.test: 10.0.0.1:80")
	conn := s.Connect()
	for _, payload := range []string{"", "{", `{"uris": [1]}`, `{"host": "10.0.0.1", "port": 1, "uris": ["bad host"]}`} {
		for _, subject := range []string{"router.register", "router.unregister", "router.greet"} {
			if err := conn.Publish(subject, []byte(payload)); err != nil {
				t.Fatal(err)
			}
		}
	}
	f.awaitProblem("", "was refused")
	f.awaitProblem("", "")
	f.await("web.test: 10.0.0.1:80")
}
