package history

import (
	"fmt"
	"strings"
	"testing"
	"time"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// fixture is a mesh whose snapshots a Log records, one second after the other.
type fixture struct {
	t       *testing.T
	builder *snapshot.Builder
	log     *Log
	now     time.Time
}

// newFixture returns a fixture that has recorded the first snapshot, with the rule "first" for host a.
func newFixture(t *testing.T, l Limits) *fixture {
	t.Helper()
	f := &fixture{t: t, builder: snapshot.NewBuilder(snapshot.Options{}), now: time.Unix(1000, 0)}
	f.log = New(l, f)
	f.set("first", "a")
	return f
}

// Now and After implement clock.Clock.
func (f *fixture) Now() time.Time                     { return f.now }
func (*fixture) After(time.Duration) <-chan time.Time { return nil }

// key returns the key of a rule.
func key(name string) config.Key {
	return config.Key{Kind: api.VirtualService, Namespace: "shop", Name: name}
}

// set adds or replaces a rule, and records the snapshot.
func (f *fixture) set(name, host string) {
	f.t.Helper()
	c, err := config.New(config.Meta{Key: key(name), Created: time.Unix(1, 0)}, &networking.VirtualService{Hosts: []string{host}})
	if err != nil {
		f.t.Fatal(err)
	}
	f.apply(mesh.Event{Config: c})
}

// apply records the snapshot after an event.
func (f *fixture) apply(e mesh.Event) {
	f.now = f.now.Add(time.Second)
	s, _ := f.builder.Apply(e)
	f.log.RecordSnapshot(s)
}

// want compares the hosts of the versions of a rule, with their seconds: "a@- b@2".
func (f *fixture) want(name, want string, wantEvicted bool) {
	f.t.Helper()
	versions, evicted := f.log.Versions(key(name))
	var parts []string
	for _, v := range versions {
		host, at := "deleted", "-"
		if v.Config != nil {
			if m, ok := v.Config.Spec.(*networking.VirtualService); ok {
				host = m.Hosts[0]
			}
		}
		if !v.Time.IsZero() {
			at = fmt.Sprint(v.Time.Unix() - 1000)
		}
		parts = append(parts, host+"@"+at)
	}
	if got := strings.Join(parts, " "); got != want || evicted != wantEvicted {
		f.t.Errorf("%s has %q, evicted %t, want %q, %t", name, got, evicted, want, wantEvicted)
	}
}

func TestVersions(t *testing.T) {
	f := newFixture(t, DefaultLimits())
	f.want("first", "", false) // it has not changed
	f.set("first", "b")
	f.set("second", "x")
	f.set("second", "x") // unchanged
	f.set("first", "c")
	f.apply(mesh.Event{Op: mesh.Delete, Config: &config.Config{Meta: config.Meta{Key: key("first")}}})
	f.set("first", "d")
	f.want("first", "a@- b@2 c@5 deleted@6 d@7", false)
	f.want("second", "x@3", false)
}

// TestLimits evicts the oldest versions: of one object if it has too many, of all if they are too
// large.
func TestLimits(t *testing.T) {
	f := newFixture(t, Limits{Bytes: 1 << 20, Versions: 3})
	for _, host := range []string{"b", "c", "d"} {
		f.set("first", host)
	}
	f.want("first", "b@2 c@3 d@4", true)

	f = newFixture(t, Limits{Bytes: 5 * (versionOverhead + 20), Versions: 100})
	f.set("second", "x")
	for _, host := range []string{"b", "c", "d", "e"} {
		f.set("first", host)
	}
	f.want("second", "", false)
	f.want("first", "a@- b@3 c@4 d@5 e@6", false)
	f.set("first", "f")
	f.want("first", "b@3 c@4 d@5 e@6 f@7", true)
	if f.log.bytes > f.log.limits.Bytes || f.log.order.Len() != 5 || len(f.log.objects) != 1 {
		t.Errorf("%d bytes in %d versions of %d objects", f.log.bytes, f.log.order.Len(), len(f.log.objects))
	}
	f.set("first", strings.Repeat("g", 1<<20)) // larger than all together
	f.want("first", "", false)

	f = newFixture(t, Limits{})
	f.set("first", "b")
	f.want("first", "", false)
}

// TestManyObjectsAtOnce adds more objects in one snapshot than are recorded.
func TestManyObjectsAtOnce(t *testing.T) {
	f := newFixture(t, DefaultLimits())
	var events []mesh.Event
	for i := range 2 * maxRecorded {
		c, err := config.New(config.Meta{Key: key(fmt.Sprint("r", i))}, &networking.VirtualService{Hosts: []string{"a"}})
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, mesh.Event{Config: c})
	}
	s, _ := f.builder.Apply(events...)
	f.log.RecordSnapshot(s)
	if n := len(f.log.objects); n != maxRecorded {
		t.Errorf("%d objects are recorded", n)
	}
}
