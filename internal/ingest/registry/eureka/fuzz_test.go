package eureka

import (
	"os"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/pkg/adapter"
)

// FuzzAnswers applies an arbitrary list and arbitrary changes. Each service has one port and
// instances with valid port numbers, each instance has its identity, and deleting all instances
// leaves nothing.
func FuzzAnswers(f *testing.F) {
	for _, name := range []string{"apps.json", "delta.json"} {
		body, err := os.ReadFile("testdata/" + name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(body, []byte(`{"applications":{"application":{"name":"A","instance":{"instanceId":"x","actionType":"DELETED"}}}}`))
		f.Add([]byte(`{"applications":{"application":[]}}`), body)
	}
	f.Fuzz(func(t *testing.T, list, changes []byte) {
		tb, settings := newTable(), DefaultSettings()
		a, err := parse(list)
		if err != nil {
			return
		}
		tb.applyList(a.instances, time.Unix(0, 0))
		if b, err := parse(changes); err == nil {
			tb.applyDelta(b.instances)
		}
		services, _ := settings.services(tb)
		for key, s := range services {
			if len(s.Ports) != 1 || len(s.Instances) == 0 || s.ServiceKey != key {
				t.Errorf("service %+v", s)
			}
			for _, i := range s.Instances {
				if n := i.Ports[s.Ports[0].Name]; n == 0 || n > 65535 || i.ID == "" || i.Weight > 65535 {
					t.Errorf("instance %+v", i)
				}
			}
			adapter.NewEntries(Name, s)
		}
		var all []instance
		for _, e := range tb.instances {
			i := e.instance
			i.Action = actionDeleted
			all = append(all, i)
		}
		tb.applyDelta(all)
		if len(tb.instances) > 0 {
			t.Errorf("%d instances are left", len(tb.instances))
		}
	})
}
