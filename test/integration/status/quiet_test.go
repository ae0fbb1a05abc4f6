package status

import (
	"testing"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/ingest/registry/serviceentry"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// Writing the allocated addresses into the status of a ServiceEntry changes no resource of proxies.
func TestWrittenAddressesAreNoChange(t *testing.T) {
	converter := serviceentry.New(serviceentry.Options{Cluster: "Kubernetes", SelectPods: true})
	builder := snapshot.NewBuilder(snapshot.Options{Allocation: snapshot.DefaultAllocation()})
	apply := func(status *config.Status) (*snapshot.Snapshot, snapshot.Delta) {
		c, err := config.New(config.Meta{Key: config.Key{Kind: api.ServiceEntry, Namespace: "shop", Name: "db"}, Status: status}, &networking.ServiceEntry{
			Hosts: []string{"db.example.com"}, Resolution: networking.ServiceEntry_DNS,
			Ports: []*networking.ServicePort{{Name: "tcp", Number: 3306, Protocol: "TCP"}},
		})
		if err != nil {
			t.Fatal(err)
		}
		return builder.Apply(converter.Convert(mesh.Batch{{Config: c}})...)
	}
	s, d := apply(nil)
	svc := s.Service(mesh.ServiceKey{Namespace: "shop", Host: "db.example.com"})
	if d.Empty() || svc == nil || len(svc.Allocated) != 2 {
		t.Fatalf("delta %+v, service %+v", d, svc)
	}
	var told config.Status
	for _, a := range svc.Allocated {
		told.Addresses = append(told.Addresses, config.HostAddress{Host: "db.example.com", Address: a})
	}
	if _, d := apply(&told); !d.Empty() {
		t.Errorf("delta %+v", d)
	}
}
