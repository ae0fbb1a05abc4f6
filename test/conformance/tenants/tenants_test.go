package tenants

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/test/support/longtest"
	"github.com/meshpilot/meshpilot/test/support/pki"
	"github.com/meshpilot/meshpilot/test/support/scorecard"
)

// Flags of the test binary, which must exist before the testing package parses them.
var (
	meshes = flag.Int("meshes", scorecard.BySize(longtest.Rounds(12, 150), 1_500, 100_000), "how many random meshes are compared")
	seed   = flag.Uint64("seed", 1, "of the first mesh; the next one has the next")
)

// Random objects of each namespace in a mesh.
const ofBank, ofEvil = 12, 20

// tally is what comparisons have found.
type tally struct {
	meshes, objects, resources, listeners, differences, secrets atomic.Int64
	mu                                                          sync.Mutex
	effects                                                     map[string]int
}

// each compares meshes until one differs.
func each(t *testing.T, compare func(t *testing.T, seed uint64, c *tally)) *tally {
	t.Helper()
	c := &tally{effects: map[string]int{}}
	for i := 0; i < *meshes && !t.Failed(); i++ {
		compare(t, *seed+uint64(i), c)
		c.meshes.Add(1)
	}
	return c
}

func (c *tally) report(t *testing.T, check scorecard.Record, mode string) {
	t.Helper()
	check.Measured(mode+" meshes compared", int(c.meshes.Load()))
	check.Measured(mode+" random objects of the other namespace", int(c.objects.Load()))
	check.Measured(mode+" resources compared", int(c.resources.Load()))
	check.Measured(mode+" differences", int(c.differences.Load()))
	check.Measured(mode+" secrets that crossed", int(c.secrets.Load()))
	t.Logf("%s: %d meshes, %d objects, %d resources; %v", mode, c.meshes.Load(), c.objects.Load(), c.resources.Load(), c.effects)
}

// TestNothingCrossesInStrictMode compares what bank's proxies are sent in a mesh with and without evil, where nothing is exported
// by default and no object of evil exports itself. Not a byte differs, and no private key of a namespace is in another's resources.
func TestNothingCrossesInStrictMode(t *testing.T) {
	check := scorecard.Check(t, 36, scorecard.Size("meshes", *meshes))
	mine, others := pki.Authority("bank"), pki.Authority("evil")
	c := each(t, func(t *testing.T, seed uint64, c *tally) {
		own := slices.Concat(decode(t, bankObjects+secretsOf(bank, mine)), randomObjects(t, seed, bank, ofBank, []string{".", "*", bank}))
		theirs := slices.Concat(decode(t, evilObjects+secretsOf(evil, others)), randomObjects(t, seed+1<<32, evil, ofEvil, []string{".", evil, "~"}))
		c.objects.Add(int64(len(theirs)))
		without, with := newWorld(t, strict, own), newWorld(t, strict, own, theirs)
		for _, proxy := range proxies {
			before, after := without.resources(proxy), with.resources(proxy)
			c.resources.Add(int64(len(before)))
			c.listeners.Add(int64(listeners(t, before)))
			if diff := changed(before, after); len(diff) > 0 {
				c.differences.Add(1)
				few := fewest(theirs, func(list []*config.Config) bool {
					return len(changed(before, newWorld(t, strict, own, list).resources(proxy))) > 0
				})
				t.Errorf("seed %d, %s: %v changes, because of\n%s", seed, proxy, diff, text(few))
			}
			crossed(t, c, seed, after, others)
		}
		crossed(t, c, seed, with.resources(foreign), mine)
	})
	c.report(t, check, "strict")
	if !t.Failed() && (c.resources.Load() < 20*c.meshes.Load() || c.listeners.Load() < 3*c.meshes.Load()) {
		t.Errorf("only %d resources and %d listeners: the test is not effective", c.resources.Load(), c.listeners.Load())
	}
}

// crossed reports a private key that is where it must not be.
func crossed(t *testing.T, c *tally, seed uint64, resources map[string][]byte, of *pki.Pair) {
	t.Helper()
	if holds(resources, of.KeyPEM()) {
		c.secrets.Add(1)
		t.Errorf("seed %d: a private key of another namespace is sent", seed)
	}
}

// TestOnlyExportedObjectsHaveEffect does the same with Istio's defaults, where objects export
// themselves to all, to bank or to others. What bank's proxies are sent is the same without those
// objects of evil that are not exported to bank.
func TestOnlyExportedObjectsHaveEffect(t *testing.T) {
	check := scorecard.Check(t, 36, scorecard.Size("meshes with exports", *meshes))
	mine, others := pki.Authority("bank"), pki.Authority("evil")
	c := each(t, func(t *testing.T, seed uint64, c *tally) {
		own := slices.Concat(decode(t, bankObjects+secretsOf(bank, mine)), randomObjects(t, seed, bank, ofBank, []string{".", "*", bank}))
		fixed := decode(t, evilObjects+secretsOf(evil, others))
		theirs := exportable(t, randomObjects(t, seed+2<<32, evil, ofEvil, []string{".", "*", bank, "other"}))
		c.objects.Add(int64(len(theirs)))
		exported := slices.DeleteFunc(slices.Clone(theirs), func(o *config.Config) bool { return !visible(o) })
		alone, some, all := newWorld(t, "{}", own, fixed), newWorld(t, "{}", own, fixed, exported), newWorld(t, "{}", own, fixed, theirs)
		for _, proxy := range proxies {
			before, after := some.resources(proxy), all.resources(proxy)
			c.resources.Add(int64(len(before)))
			if diff := changed(before, after); len(diff) > 0 {
				c.differences.Add(1)
				hidden := slices.DeleteFunc(slices.Clone(theirs), visible)
				few := fewest(hidden, func(list []*config.Config) bool {
					return len(changed(before, newWorld(t, "{}", own, fixed, exported, list).resources(proxy))) > 0
				})
				t.Errorf("seed %d, %s: %v changes because of objects that are not exported\n%s", seed, proxy, diff, text(few))
			}
			crossed(t, c, seed, after, others)
			c.mu.Lock()
			if len(changed(alone.resources(proxy), after)) > 0 {
				c.effects["changed by what is exported"]++
			} else {
				c.effects["unchanged"]++
			}
			c.mu.Unlock()
		}
		crossed(t, c, seed, all.resources(foreign), mine)
	})
	c.report(t, check, "default")
	if c.effects["changed by what is exported"] == 0 {
		t.Error("nothing that is exported changes anything: the test could not fail")
	}
}

// exportable returns each ServiceEntry hosts of its own, and takes delegates away: an object that is exported may be joined with, or refer to, one of its own
// namespace that is not, which is its namespace's choice.
func exportable(t *testing.T, list []*config.Config) []*config.Config {
	t.Helper()
	var out []*config.Config
	for i, o := range list {
		spec, ok := o.Spec.(proto.Message)
		if !ok {
			t.Fatalf("%s has no spec", o.Key)
		}
		spec = proto.Clone(spec)
		switch s := spec.(type) {
		case *networking.ServiceEntry:
			s.Hosts = []string{fmt.Sprintf("h%d.example.org", i)}
		case *networking.VirtualService:
			s.Http = slices.DeleteFunc(s.Http, func(h *networking.HTTPRoute) bool { return h.GetDelegate() != nil })
			if len(s.Http)+len(s.Tls)+len(s.Tcp) == 0 {
				continue
			}
		}
		made, err := config.New(o.Meta, spec)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, made)
	}
	return out
}

// fewest returns few of the objects for which something still holds. It drops halves, then quarters, and so on to single objects.
func fewest(objects []*config.Config, holds func([]*config.Config) bool) []*config.Config {
	for size := len(objects) / 2; size >= 1; size /= 2 {
		for at := 0; at < len(objects); {
			rest := slices.Delete(slices.Clone(objects), at, min(at+size, len(objects)))
			if holds(rest) {
				objects = rest
			} else {
				at += size
			}
		}
	}
	return objects
}

func text(objects []*config.Config) string {
	var b strings.Builder
	for _, o := range objects {
		spec := fmt.Sprint(o.Spec)
		if m, ok := o.Spec.(proto.Message); ok {
			spec = protojson.Format(m)
		}
		fmt.Fprintf(&b, "%s %s\n", o.Key, spec)
	}
	return b.String()
}
