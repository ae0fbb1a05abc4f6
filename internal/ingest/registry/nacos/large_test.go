package nacos

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/clock"
	"github.com/meshpilot/meshpilot/pkg/adapter"
	"github.com/meshpilot/meshpilot/test/support/platform"
)

// newLargePlatform returns a server with platform.Large instances of a number of services, and a
// Platform that lists them only once.
func newLargePlatform(t *testing.T, services int) (*fakeServer, adapter.Platform) {
	t.Helper()
	f := newFakeServer(t, nil)
	f.edit(func() {
		for i := range platform.Large {
			name := fmt.Sprintf("DEFAULT_GROUP@@s%d", i%services)
			f.services[name] = append(f.services[name], instance{
				ID: fmt.Sprint("x", i), IP: fmt.Sprintf("198.18.%d.%d", i>>8, i&255), Port: 8080, Weight: 1, Healthy: true, Enabled: true,
			})
		}
	})
	settings := DefaultSettings()
	settings.Servers, settings.Interval = []string{f.address}, time.Hour
	p, err := New(settings, nil, clock.System{})
	if err != nil {
		t.Fatal(err)
	}
	return f, p
}

// removeOne removes the first instance of the first service, which the server pushes.
func (f *fakeServer) removeOne() {
	const name = "DEFAULT_GROUP@@s0"
	f.edit(func() { f.services[name] = f.services[name][1:] }, name)
}

// subscriptions returns how many requests for subscriptions were answered.
func (f *fakeServer) subscriptions() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, r := range f.requests {
		if strings.HasPrefix(r, subscribeRequest) {
			n++
		}
	}
	return n
}

// TestTenThousandInstances checks one service with ten thousand instances, one of which is removed
// by a push.
func TestTenThousandInstances(t *testing.T) {
	f, p := newLargePlatform(t, 1)
	platform.RequireLarge(t, p, f.removeOne)
	if n := f.subscriptions(); n != 1 {
		t.Errorf("%d subscriptions to one service", n)
	}
}

// TestThousandServices checks a thousand services with ten instances each. A push changes one
// service and costs no request.
func TestThousandServices(t *testing.T) {
	f, p := newLargePlatform(t, platform.Many)
	platform.RequireMany(t, p, f.removeOne)
	if n := f.subscriptions(); n != platform.Many {
		t.Errorf("%d subscriptions to %d services", n, platform.Many)
	}
}
