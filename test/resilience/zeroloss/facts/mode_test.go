package facts

import (
	"fmt"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/netns"
	"github.com/meshpilot/meshpilot/test/resilience/zeroloss/echo"
	"github.com/meshpilot/meshpilot/test/resilience/zeroloss/load"
	"github.com/meshpilot/meshpilot/test/support/longtest"
)

// TestHostIsKeptUnlessItsHostnameChanges shows which change of an endpoint makes Envoy use its new
// transport socket. With new metadata alone the pooled connections of the old mode go on being used.
// With another hostname too, new requests use the new mode at once, and no request is lost.
func TestHostIsKeptUnlessItsHostnameChanges(t *testing.T) {
	longtest.Test(t)
	netns.Require(t)
	l := newLab(t, len(facts())+1, func(c *config) { c.ByEndpoint = true })
	l.changeEndpoints(func(c *config) { c.EndpointTLS = true })
	l.checkSomePlain(echo.HTTP, echo.HTTP2, echo.GRPC)
	l.changeEndpoints(func(c *config) { c.Hostname = "another" })
	l.checkTLS(true, echo.HTTP, echo.HTTPClose, echo.HTTP2, echo.GRPC, echo.GRPCOpen, echo.TCPOpen)
	for i := range changes {
		l.load.During(fmt.Sprint("change ", i+1))
		mutual := i%2 == 1
		l.changeEndpoints(func(c *config) {
			c.EndpointTLS, c.Hostname = mutual, "plain"
			if mutual {
				c.Hostname = ""
			}
		})
		l.checkTLS(mutual, echo.HTTP, echo.HTTPClose, echo.HTTP2, echo.GRPC, echo.GRPCOpen, echo.TCPOpen)
	}
	if tally := l.load.Stop(); tally.Sum(nil).Failed > 0 {
		t.Errorf("%d of %d requests were lost: %v", tally.Sum(nil).Failed, tally.Sum(nil).Sent, tally.Failures[:min(len(tally.Failures), 10)])
	}
}

// changeEndpoints changes all endpoints and waits until Envoy has updated its clusters.
func (l *lab) changeEndpoints(change func(*config)) {
	l.t.Helper()
	const updates = "^cluster.(http|http2|grpc|tcp).update_success$"
	before := l.counter(updates)
	change(&l.config)
	l.write()
	l.until("Envoy updates the endpoints", func() error {
		if n := l.counter(updates) - before; n < len(l.config.Clusters) {
			return fmt.Errorf("%d of %d clusters are updated", n, len(l.config.Clusters))
		}
		return nil
	})
	// A worker thread applies the update a little later than the main thread counts it, and a request
	// that has begun may still use the old connection.
	l.answered(time.Now())
	l.answered(time.Now())
}

// checkSomePlain checks that at least one of ten requests of each kind does not use TLS. A request
// for which no pooled connection is free opens a new one, so not all of them use the old mode.
func (l *lab) checkSomePlain(kinds ...echo.Kind) {
	l.t.Helper()
	plain := map[echo.Kind]bool{}
	for range 10 {
		l.answered(time.Now())
		if err := l.load.Await(l.t.Context(), func(newest map[string]load.Seen) error {
			for _, kind := range kinds {
				plain[kind] = plain[kind] || !newest[string(kind)].TLS
			}
			return nil
		}); err != nil {
			l.t.Fatal(err)
		}
	}
	for _, kind := range kinds {
		if !plain[kind] {
			l.t.Errorf("after the change of metadata alone, all requests of %s use TLS", kind)
		}
	}
}

// checkTLS checks for ten requests of each kind whether they use TLS.
func (l *lab) checkTLS(want bool, kinds ...echo.Kind) {
	l.t.Helper()
	for range 10 {
		l.answered(time.Now())
		if err := l.load.Await(l.t.Context(), func(newest map[string]load.Seen) error {
			for _, kind := range kinds {
				if newest[string(kind)].TLS != want {
					l.t.Errorf("after the change to metadata with TLS %t and hostname %q, %s uses TLS: %t",
						l.config.EndpointTLS, l.config.Hostname, kind, !want)
				}
			}
			return nil
		}); err != nil {
			l.t.Fatal(err)
		}
	}
}
