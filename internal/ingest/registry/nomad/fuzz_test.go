package nomad

import (
	"testing"

	"github.com/meshpilot/meshpilot/pkg/adapter"
)

// FuzzAnswers parses arbitrary answers and events. Each service has one port, and instances with
// valid ports and their identity.
func FuzzAnswers(f *testing.F) {
	f.Add(documented(f, "services.json"), documented(f, "service.json"), documented(f, "events.ndjson"))
	f.Add([]byte(`[]`), []byte(`[{"ID":"x","Address":"::1","Port":1,"Tags":["=","|","a=","weight=1"]}]`), []byte(`{}`))
	f.Fuzz(func(t *testing.T, list, registrations, events []byte) {
		settings := DefaultSettings()
		if names, err := parseNames(list, "default"); err == nil {
			for _, name := range names {
				if name == "" {
					t.Error("a service has no name")
				}
			}
		}
		if changes, err := parseEvents(events); err == nil {
			l := &listing{services: map[string]*service{}}
			if got := l.changed(changes); len(got) > len(changes) {
				t.Errorf("%d services changed by %d events", len(got), len(changes))
			}
		}
		instances, err := parseRegistrations(registrations)
		if err != nil {
			return
		}
		s, _ := settings.convert(settings.key("default", "web"), instances)
		if s == nil {
			return
		}
		if len(s.Ports) != 1 || len(s.Instances) == 0 || len(s.Instances) > len(instances) {
			t.Errorf("service %+v", s)
		}
		for _, i := range s.Instances {
			if n := i.Ports[s.Ports[0].Name]; n == 0 || n > 65535 || i.ID == "" || i.Weight > 65535 {
				t.Errorf("instance %+v", i)
			}
		}
		adapter.NewEntries(Name, *s)
	})
}
