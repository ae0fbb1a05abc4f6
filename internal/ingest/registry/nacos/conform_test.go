package nacos

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/clock"
	"github.com/meshpilot/meshpilot/pkg/adapter"
	"github.com/meshpilot/meshpilot/test/support/platform"
)

// TestConformance runs the suite of platforms on a fake server.
func TestConformance(t *testing.T) {
	f := newFakeServer(t, nil)
	address, err := grpcAddress(f.address)
	if err != nil {
		t.Fatal(err)
	}
	edit := func(service, id string, added ...instance) {
		name := "DEFAULT_GROUP@@" + service
		f.edit(func() {
			list := slices.DeleteFunc(slices.Clone(f.services[name]), func(i instance) bool { return i.ID == id })
			if f.services[name] = append(list, added...); len(f.services[name]) == 0 {
				delete(f.services, name)
			}
		}, name)
	}
	platform.RunConformance(t, platform.Conformance{
		Address: address,
		Open: func(address string) adapter.Platform {
			settings := DefaultSettings()
			settings.Servers, settings.Interval = []string{httpAddress(t, address)}, 10*time.Millisecond
			p, err := New(settings, nil, clock.System{})
			if err != nil {
				t.Fatal(err)
			}
			return p
		},
		Register: func(service, id, address string) {
			edit(service, id, instance{ID: id, IP: address, Port: 8080, Weight: 1, Healthy: true, Enabled: true})
		},
		Deregister: func(service, id string) { edit(service, id) },
	})
}

// httpAddress returns the address of a server whose address of gRPC is known.
func httpAddress(t *testing.T, grpc string) string {
	t.Helper()
	host, text, err := net.SplitHostPort(grpc)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return net.JoinHostPort(host, fmt.Sprint(port-portOffset))
}
