package zookeeper

import (
	"testing"

	"github.com/meshpilot/meshpilot/pkg/adapter"
)

// FuzzProvider parses the names of arbitrary nodes as Dubbo's URLs.
func FuzzProvider(f *testing.F) {
	f.Add(providerNode)
	f.Add("tri://[2001:db8::1]:50051/a.B?group=*&version=1&weight=0")
	f.Add("rest%3A%2F%2Fhost%3A80%2Fx%3Finterface%3Da%2FB%26protocol%3Dgrpc%26service-port%3D1")
	f.Fuzz(func(t *testing.T, name string) {
		r, err := parseProvider(name)
		checkRegistration(t, r, err)
	})
}

// FuzzInstance parses arbitrary contents of nodes as instances of curator-x-discovery.
func FuzzInstance(f *testing.F) {
	f.Add("orders", []byte(springInstance))
	f.Add("Demo", []byte(dubboInstance))
	f.Add("", []byte(`{"address":"a","port":1,"enabled":false,"payload":null}`))
	f.Fuzz(func(t *testing.T, service string, content []byte) {
		r, err := parseInstance(service, content)
		checkRegistration(t, r, err)
	})
}

// checkRegistration fails the test unless the registration is usable or has an error, and converts
// to services that have one port, and an entry without a problem of labels or ports.
func checkRegistration(t *testing.T, r registration, err error) {
	t.Helper()
	if len(r.endpoints) == 0 && err == nil {
		t.Error("neither an endpoint nor an error")
	}
	settings := DefaultSettings()
	node := &service{instances: map[string]*instance{"x": {registration: r, err: err}}}
	services, _ := settings.adapterServices(node, 0)
	if len(services) > len(r.endpoints) || len(services) == 0 && len(r.endpoints) > 0 {
		t.Errorf("%d services of %d endpoints", len(services), len(r.endpoints))
	}
	for key, s := range services {
		if len(s.Ports) != 1 || len(s.Instances) == 0 || s.ServiceKey != key {
			t.Errorf("service %+v", s)
		}
		for _, i := range s.Instances {
			if port := i.Ports[s.Ports[0].Name]; port == 0 || port > 65535 || i.Weight > 65535 {
				t.Errorf("instance %+v", i)
			}
		}
		adapter.NewEntries(Name, s)
	}
}
