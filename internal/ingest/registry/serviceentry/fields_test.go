package serviceentry_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	networking "istio.io/api/networking/v1alpha3"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/meshpilot/meshpilot/internal/model/config"
)

// fieldCase shows that one field of the API has an effect: a change of it changes the emitted
// events, if only by a Problem.
type fieldCase struct {
	object string
	change func(*config.Config) *config.Config
}

// TestEveryField enumerates the fields of the API and requires that a change of each has an effect.
// A field of a new version of the API fails the test until it is read or reported.
func TestEveryField(t *testing.T) {
	entry := func(text string, change func(*networking.ServiceEntry)) fieldCase {
		return fieldCase{text, func(c *config.Config) *config.Config { return withSpec(t, c, change) }}
	}
	workload := func(change func(*networking.WorkloadEntry)) []fieldCase {
		return []fieldCase{
			entry(staticEntry, func(s *networking.ServiceEntry) { change(s.Endpoints[0]) }),
			{workloadEntry, func(c *config.Config) *config.Config { return withSpec(t, c, change) }},
		}
	}
	cases := map[string][]fieldCase{
		"ServiceEntry.hosts":             {entry(staticEntry, func(s *networking.ServiceEntry) { s.Hosts[1] = "x.example.com" })},
		"ServiceEntry.addresses":         {entry(staticEntry, func(s *networking.ServiceEntry) { s.Addresses[2] = "240.9.0.0" })},
		"ServiceEntry.ports":             {entry(staticEntry, func(s *networking.ServiceEntry) { s.Ports = s.Ports[:1] })},
		"ServiceEntry.location":          {entry(staticEntry, func(s *networking.ServiceEntry) { s.Location = networking.ServiceEntry_MESH_EXTERNAL })},
		"ServiceEntry.endpoints":         {entry(staticEntry, func(s *networking.ServiceEntry) { s.Endpoints = s.Endpoints[1:] })},
		"ServiceEntry.workload_selector": {entry(selectingEntry, func(s *networking.ServiceEntry) { s.WorkloadSelector = nil })},
		"ServiceEntry.export_to":         {entry(staticEntry, func(s *networking.ServiceEntry) { s.ExportTo = []string{"*"} })},
		"ServiceEntry.subject_alt_names": {entry(staticEntry, func(s *networking.ServiceEntry) { s.SubjectAltNames = nil })},
		"WorkloadSelector.labels":        {entry(selectingEntry, func(s *networking.ServiceEntry) { s.WorkloadSelector.Labels["app"] = "x" })},
		"ServicePort.number":             {entry(staticEntry, func(s *networking.ServiceEntry) { s.Ports[1].Number = 81 })},
		"ServicePort.protocol":           {entry(staticEntry, func(s *networking.ServiceEntry) { s.Ports[1].Protocol = "GRPC" })},
		"ServicePort.name":               {entry(staticEntry, func(s *networking.ServiceEntry) { s.Ports[1].Name = "web" })},
		"ServicePort.target_port":        {entry(staticEntry, func(s *networking.ServiceEntry) { s.Ports[0].TargetPort = 9 })},
		"WorkloadEntry.address":          workload(func(w *networking.WorkloadEntry) { w.Address = "192.0.2.99" }),
		"WorkloadEntry.ports":            workload(func(w *networking.WorkloadEntry) { w.Ports["http"] = 9 }),
		"WorkloadEntry.labels":           workload(func(w *networking.WorkloadEntry) { w.Labels["version"] = "v9" }),
		"WorkloadEntry.network":          workload(func(w *networking.WorkloadEntry) { w.Network = "net-9" }),
		"WorkloadEntry.locality":         workload(func(w *networking.WorkloadEntry) { w.Locality = "us" }),
		"WorkloadEntry.weight":           workload(func(w *networking.WorkloadEntry) { w.Weight = 9 }),
		"WorkloadEntry.service_account":  workload(func(w *networking.WorkloadEntry) { w.ServiceAccount = "x" }),
	}
	for number := range networking.ServiceEntry_Resolution_name {
		resolution := networking.ServiceEntry_Resolution(number)
		if resolution != networking.ServiceEntry_STATIC {
			cases["ServiceEntry.resolution"] = append(cases["ServiceEntry.resolution"],
				entry(staticEntry, func(s *networking.ServiceEntry) { s.Resolution = resolution }))
		}
	}
	for _, message := range []proto.Message{&networking.ServiceEntry{}, &networking.ServicePort{}, &networking.WorkloadSelector{}, &networking.WorkloadEntry{}} {
		descriptor := message.ProtoReflect().Descriptor()
		for i := range descriptor.Fields().Len() {
			checkField(t, descriptor, descriptor.Fields().Get(i), cases)
		}
	}
	if len(cases) != 0 {
		t.Errorf("cases for fields that the API does not have: %v", cases)
	}
}

func checkField(t *testing.T, of protoreflect.MessageDescriptor, field protoreflect.FieldDescriptor, cases map[string][]fieldCase) {
	name := string(of.Name()) + "." + string(field.Name())
	list := cases[name]
	delete(cases, name)
	if len(list) == 0 {
		t.Errorf("no case for %s: is it read, or reported?", name)
	}
	for _, c := range list {
		before := object(t, c.object)
		after := c.change(before)
		if cmp.Equal(converted(t, before), converted(t, after)) {
			t.Errorf("a change of %s in %s makes no difference", name, before.Key)
		}
	}
}
