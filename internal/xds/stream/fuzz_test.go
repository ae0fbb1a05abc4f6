package stream

import (
	"fmt"
	"testing"

	"github.com/meshpilot/meshpilot/internal/model/resource"
)

// FuzzStep sends a Machine the requests of a hostile or broken client, while ResourceSnapshots
// change. The Machine must not panic, send before the previous Send was written, name a resource
// twice in one response, or send a type that was not requested. Endpoints may be sent with their
// clusters.
func FuzzStep(f *testing.F) {
	f.Add([]byte("\x00\x00\x10\x21\x32\x43\x50\x60\x00\x01\x11\x22"))
	f.Add([]byte("\x01\x40\x41\x42\x43\x00\x10\x51\x62\x70\x80\x9f\xa0\xff\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) == 0 {
			return
		}
		in := fuzzInput{data: data[1:]}
		m := New(Options{Mode: Mode(data[0] & 1)})
		check := fuzzCheck{t: t, asked: map[string]bool{}}
		for len(in.data) > 0 {
			e := in.event()
			if r, ok := e.(Request); ok {
				check.asked[r.TypeURL] = true
			}
			if _, ok := e.(Sent); ok {
				check.writing = false
			}
			check.actions(m.Step(e))
			m.State()
			m.IsIdle()
		}
	})
}

type fuzzCheck struct {
	t       *testing.T
	asked   map[string]bool
	writing bool
}

func (c *fuzzCheck) actions(list []Action) {
	for _, a := range list {
		s, ok := a.(Send)
		if !ok {
			continue
		}
		if c.writing {
			c.t.Fatal("a Send was returned before the previous one was written")
		}
		c.writing = true
		if !c.asked[s.TypeURL] && s.TypeURL != pushOrder[eds].URL {
			c.t.Fatalf("sent %s, which was not requested", s.TypeURL)
		}
		seen := map[string]bool{}
		for _, p := range s.Parts {
			for _, r := range p.Resources() {
				if seen[r.Name] {
					c.t.Fatalf("%s is in one response twice", r.Name)
				}
				seen[r.Name] = true
			}
		}
		kind := pushOrder[envoyTypes.positionOf(s.TypeURL)]
		if kind.Silent && len(seen) == 0 {
			c.t.Fatalf("an empty response of %s", s.TypeURL)
		}
		for _, n := range s.Removed {
			if !kind.Removable {
				c.t.Fatalf("%s of %s is removed", n, s.TypeURL)
			}
			if seen[n] {
				c.t.Fatalf("%s is added or removed twice", n)
			}
			seen[n] = true
		}
	}
}

// fuzzInput decodes events from bytes.
type fuzzInput struct{ data []byte }

func (in *fuzzInput) byte() byte {
	if len(in.data) == 0 {
		return 0
	}
	b := in.data[0]
	in.data = in.data[1:]
	return b
}

func (in *fuzzInput) names() []string {
	var list []string
	for range in.byte() % 4 {
		list = append(list, []string{"a", "b", "c", "static", "*", "", "x", "é"}[in.byte()%8])
	}
	return list
}

func (in *fuzzInput) event() Event {
	switch b := in.byte(); b % 8 {
	case 0, 1:
		return Ready{Resources: in.resources()}
	case 2:
		return Sent{}
	case 3:
		return Tick{}
	default:
		r := Request{TypeURL: "unknown"}
		if i := int(b / 8 % 10); i < len(pushOrder) {
			r.TypeURL = pushOrder[i].URL
		}
		r.Nonce = []string{"", "", "1", "2", "3", "7", "junk"}[in.byte()%7]
		r.Version = []string{"", "v"}[in.byte()%2]
		r.Rejected = b%8 == 4
		r.Message = "a and b are bad"
		r.Names, r.Subscribe, r.Unsubscribe = in.names(), in.names(), in.names()
		if b%8 == 5 {
			held := map[string]string{}
			for _, n := range in.names() {
				held[n] = resource.FromBytes(n, r.TypeURL, []byte("1 :a")).Version
			}
			r.Held = HoldingsOf(held)
		}
		return r
	}
}

func (in *fuzzInput) resources() *ResourceSnapshot {
	groups := map[string][]*ResourceGroup{}
	for i := range pushOrder {
		b := in.byte()
		if b%8 == 0 && i == sds {
			continue // not served
		}
		var list []*resource.Resource
		var asked []string
		for j, name := range []string{"a", "b", "c", "static"} {
			if b>>j&1 == 1 {
				asked = append(asked, name)
			}
			if b>>(j+4)&1 == 1 {
				list = append(list, resource.FromBytes(name, pushOrder[i].URL, fmt.Append(nil, b%2, ":a")))
			}
		}
		set, err := resource.NewSet(list)
		if err != nil {
			panic(err)
		}
		if pushOrder[i].Wildcard {
			groups[pushOrder[i].URL] = []*ResourceGroup{NewResourceGroup(set)}
		} else {
			groups[pushOrder[i].URL] = []*ResourceGroup{NewNamedResourceGroup(set, asked)}
		}
	}
	return BuildResourceSnapshot(Contents{Groups: groups, EndpointsOf: ownEndpoints, ClustersOf: refs})
}
