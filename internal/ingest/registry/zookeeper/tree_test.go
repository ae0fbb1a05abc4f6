package zookeeper

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"
)

func read(path string, created, changed int64) node {
	return node{path: path, exists: true, stat: zk.Stat{Czxid: created, Ctime: created, Pzxid: changed}}
}

// TestIsReset compares the data of a new session with a root and a service of the previous session.
func TestIsReset(t *testing.T) {
	known := newTree()
	known.setRoot(read("/services", 5, 20))
	known.service("/services/web").setNode(read("/services/web", 10, 20))
	for name, x := range map[string]struct {
		nodes []node
		want  bool
	}{
		"the same data":                           {[]node{read("/services", 5, 20), read("/services/web", 10, 20)}, false},
		"an instance was deleted":                 {[]node{read("/services", 5, 20), read("/services/web", 10, 25)}, false},
		"the service was deleted":                 {[]node{read("/services", 5, 30)}, false},
		"the service was deleted and made again":  {[]node{read("/services", 5, 30), read("/services/web", 30, 31)}, false},
		"the service cannot be read":              {[]node{read("/services", 5, 20), {path: "/services/web", err: zk.ErrNoAuth}}, false},
		"the root cannot be read":                 {[]node{{path: "/services", err: zk.ErrNoAuth}}, false},
		"all data were lost":                      {[]node{{path: "/services"}}, true},
		"all data were lost and the root is back": {[]node{read("/services", 6, 7)}, true},
		"the data are older":                      {[]node{read("/services", 5, 10), read("/services/web", 10, 15)}, true},
		"the data are older than the service":     {[]node{read("/services", 5, 10), read("/services/web", 6, 25)}, true},
	} {
		nodes := map[string]node{}
		for _, n := range x.nodes {
			nodes[n.path] = n
		}
		if got := known.isReset(nodes); got != x.want {
			t.Errorf("%s: reset %t, want %t", name, got, x.want)
		}
	}
}

func TestInstancesOfLostDataAreHeld(t *testing.T) {
	at := func(address string) registration {
		return mustParse(t, strings.Replace(springInstance, "192.0.2.3", address, 1))
	}
	s := newTree().service("/services/web")
	check := func(want string, generation uint64, held int) {
		t.Helper()
		names := slices.Sorted(maps.Keys(s.instances))
		if got := strings.Join(names, " "); got != want || s.held(generation) != held {
			t.Errorf("instances %s, %d held; want %s, %d", got, s.held(generation), want, held)
		}
	}
	for name, address := range map[string]string{"a": "192.0.2.1", "b": "192.0.2.2", "c": "192.0.2.3"} {
		s.set(name, at(address), 1, nil)
	}
	s.removeMissing([]string{"a", "b", "c"}, 1)
	check("a b c", 1, 0)
	s.removeMissing([]string{"a", "b"}, 1)
	check("a b", 1, 0)
	s.removeMissing(nil, 2) // the data were lost
	check("a b", 2, 2)
	s.set("a", at("192.0.2.1"), 2, nil) // registered again
	s.removeMissing([]string{"a"}, 2)
	check("a b", 2, 1)
	s.removeMissing(nil, 2) // and deregistered
	check("b", 2, 1)
	s.set("x", at("192.0.2.2"), 2, nil) // registered again by another name
	s.removeMissing([]string{"x"}, 2)
	check("x", 2, 0)
	s.set("x", registration{}, 2, errExpired) // its content has become invalid
	if len(s.instances["x"].endpoints) == 0 {
		t.Error("invalid content removed the endpoints of the instance")
	}
}
