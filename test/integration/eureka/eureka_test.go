package eureka

import (
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/clock"
	registry "github.com/meshpilot/meshpilot/internal/ingest/registry/eureka"
	"github.com/meshpilot/meshpilot/test/support/eureka"
	"github.com/meshpilot/meshpilot/test/support/platform"
)

func follow(t *testing.T, s *eureka.Server) *platform.Follower {
	t.Helper()
	settings := registry.DefaultSettings()
	settings.URLs, settings.Interval = []string{s.URL}, 200*time.Millisecond
	if s.TLS != nil {
		settings.CAFile, settings.CertFile, settings.KeyFile = s.TLS.CAFile, s.TLS.CertFile, s.TLS.KeyFile
	}
	p, err := registry.New(settings, nil, clock.System{})
	if err != nil {
		t.Fatal(err)
	}
	return platform.Follow(t, p)
}

// TestChanges registers, changes and removes instances, over TLS with client certificates.
func TestChanges(t *testing.T) {
	eureka.Require(t)
	s := eureka.Start(t, eureka.Options{TLS: true})
	f := follow(t, s)
	f.Await("")
	s.Register("ORDERS", "a", "192.0.2.1", 8080, "STARTING", 90)
	f.Await("80.orders.service.eureka: a=unhealthy")
	s.Register("ORDERS", "a", "192.0.2.1", 8080, "UP", 90)
	s.Register("ORDERS", "b", "192.0.2.2", 8081, "UP", 90)
	f.Await("80.orders.service.eureka: a b")
	if i := f.Service("80.orders.service.eureka").Instances[1]; i.Address != "192.0.2.2" || i.Ports["http-80"] != 8081 {
		t.Errorf("instance %+v", i)
	}
	s.Register("USERS", "c", "192.0.2.3", 8080, "UP", 90)
	f.Await("80.orders.service.eureka: a b; 80.users.service.eureka: c")
	s.SetStatus("ORDERS", "a", "OUT_OF_SERVICE")
	f.Await("80.orders.service.eureka: a=draining b; 80.users.service.eureka: c")
	s.Deregister("ORDERS", "a")
	f.Await("80.orders.service.eureka: b; 80.users.service.eureka: c")
	s.Deregister("USERS", "c")
	f.Await("80.orders.service.eureka: b")
	s.Deregister("ORDERS", "b")
	f.Await("")
	f.AwaitProblem("")
}

// TestRestart kills the server, which restarts without its instances. They are retained until most
// are registered again. An instance that is not is removed when its lease has expired.
func TestRestart(t *testing.T) {
	eureka.Require(t)
	s := eureka.Start(t, eureka.Options{})
	const lease = 10 // after twice as long the server would remove the instance itself
	for _, id := range []string{"a", "b", "c"} {
		s.Register("ORDERS", id, "192.0.2.1", 8080, "UP", 90)
	}
	s.Register("ORDERS", "d", "192.0.2.4", 8080, "UP", lease)
	f := follow(t, s)
	const all = "80.orders.service.eureka: a b c d"
	f.Await(all)
	unchanged := f.Mark()
	s.Pause()
	time.Sleep(2 * time.Second) // the server must appear slow, not unreachable
	s.Resume()
	s.Kill()
	f.AwaitProblem("connection refused")
	s.Launch()
	f.AwaitProblem("does not list 4 of the instances")
	s.Register("ORDERS", "a", "192.0.2.1", 8080, "UP", 90)
	f.AwaitProblem("does not list 3 of the instances")
	unchanged()
	s.Deregister("ORDERS", "a") // the new server reports its removal
	f.Await("80.orders.service.eureka: b c d")
	s.Register("ORDERS", "b", "192.0.2.1", 8080, "UP", 90)
	s.Register("ORDERS", "c", "192.0.2.1", 8080, "UP", 90)
	f.Await("80.orders.service.eureka: b c")
	f.AwaitProblem("")
}
