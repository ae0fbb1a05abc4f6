package cloudfoundry

import (
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/pkg/adapter"
)

// FuzzRegister registers and unregisters arbitrary payloads. None may panic or have a service whose
// entry has invalid parts, and a withdrawn registration must leave nothing behind.
func FuzzRegister(f *testing.F) {
	f.Add([]byte(documented), true)
	f.Add([]byte(emitted), false)
	f.Add([]byte(`{"host": "::1", "port": 1, "uris": ["*.a.com", "a.com/b/_c", "*.a.com/x", "x"]}`), true)
	f.Add([]byte(`{"host": "10.0.0.1", "tls_port": 1, "uris": ["a.com"], "tags": {"a/b": "c", "": "", "x": "y z"}}`), true)
	f.Fuzz(func(t *testing.T, payload []byte, tls bool) {
		m, err := parseMessage(payload)
		if err != nil {
			return
		}
		s := DefaultSettings()
		s.BackendTLS, s.Region = tls, "r"
		x := newTestTable(t)
		r, err := s.newRegistration(m)
		if err != nil {
			return
		}
		for _, uri := range m.URIs {
			at, err := parseRoute(uri)
			if err != nil {
				continue
			}
			x.mustRegister(at, r)
			service, err := s.newService(at, x.routes[at])
			if err == nil {
				checkEntry(t, service)
			}
		}
		for _, uri := range m.URIs {
			if at, err := parseRoute(uri); err == nil {
				for _, gone := range m.withdrawnRegistrations() {
					x.unregister(at, gone, x.now)
				}
			}
		}
		x.removeEmpty(x.now.Add(time.Hour))
		if x.size != 0 || len(x.routes) != 0 || len(x.emptySince) != 0 {
			t.Errorf("left: %d, %v, %v", x.size, x.routes, x.emptySince)
		}
	})
}

func checkEntry(t *testing.T, s adapter.Service) {
	t.Helper()
	entries, problems := adapter.NewEntries(Name, s)
	if len(problems) > 0 || len(entries) != 1 || len(entries[0].Spec.GetEndpoints()) != 1 {
		t.Errorf("service %+v: problems %v, entries %v", s, problems, entries)
	}
}
