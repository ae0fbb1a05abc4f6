package nomad

import (
	"fmt"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/ingest/registry/clienttls"
	"github.com/meshpilot/meshpilot/test/support/platform"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// newLargeAgent returns an agent with platform.Large instances of a number of services: "s0", "s1",
// ….
func newLargeAgent(services int) *fakeAgent {
	f := newFakeAgent()
	f.edit(func() {
		for i := range platform.Large {
			f.register(registration{
				ID: fmt.Sprint("x", i), ServiceName: fmt.Sprint("s", i%services), Namespace: "default",
				Address: fmt.Sprintf("198.18.%d.%d", i>>8, i&255),
			}, "")
		}
	})
	return f
}

// newPatientPlatform is newPlatform with the timeout that applies outside tests, since the agent
// sends no heartbeats.
func newPatientPlatform(t *testing.T, f *fakeAgent) *Platform {
	t.Helper()
	p := newPlatform(t, f, &testClock{})
	p.streamTimeout = streamTimeout
	return p
}

// awaitStart waits until the lists of both namespaces and all services were read twice: at the
// start, and after the first line of events.
func (f *fakeAgent) awaitStart(t *testing.T, services int) {
	t.Helper()
	const namespaces = 2 // those of newPlatform
	want := 2 * (namespaces + services)
	serving.Eventually(t, time.Minute, "the reads at the start", func() error {
		if n := f.totalReads(); n < want {
			return fmt.Errorf("%d of %d", n, want)
		}
		return nil
	})
}

// TestTenThousandInstances checks one service with ten thousand instances. A change of one of them
// is one query.
func TestTenThousandInstances(t *testing.T) {
	f := newLargeAgent(1)
	platform.RequireLarge(t, newPatientPlatform(t, f), func() {
		f.awaitStart(t, 1)
		f.remove("x0", typeDeregistration)
	})
	if n := f.readsOf("/v1/service/s0"); n != 3 {
		t.Errorf("%d queries, want 2 at the start and one for the change", n)
	}
}

// TestThousandServices checks a thousand services with ten instances each. They are read through a
// few connections. A change of one is one query of it, and of no other one.
func TestThousandServices(t *testing.T) {
	f := newLargeAgent(platform.Many)
	total := 0
	platform.RequireMany(t, newPatientPlatform(t, f), func() {
		f.awaitStart(t, platform.Many)
		total = f.totalReads()
		f.remove("x0", typeDeregistration)
	})
	if n := f.totalReads() - total; n != 1 || f.readsOf("/v1/service/s0") != 3 {
		t.Errorf("%d queries for one change, %d of its service", n, f.readsOf("/v1/service/s0")-2)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.connections > 5*clienttls.MaxConcurrent { // some are opened while others become idle
		t.Errorf("%d connections", f.connections)
	}
}

// totalReads returns how many requests were answered, apart from streams of events.
func (f *fakeAgent) totalReads() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, reads := range f.reads {
		n += reads
	}
	return n
}
