package snapshot

import (
	"slices"
	"strings"
	"testing"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"sigs.k8s.io/yaml"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

func parsed[T proto.Message](t testing.TB, into T, text string) T {
	t.Helper()
	js, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if err := protojson.Unmarshal(js, into); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return into
}

// virtualService is an event of one with that name ("namespace/name") and spec.
func virtualService(t testing.TB, name, spec string) mesh.Event {
	t.Helper()
	namespace, name, _ := strings.Cut(name, "/")
	return upsert(object(t, api.VirtualService, namespace, name, 1, parsed(t, new(networking.VirtualService), spec)))
}

func rowOf(s *Snapshot, name string) *VirtualService {
	namespace, name, _ := strings.Cut(name, "/")
	for _, v := range s.VirtualServices() {
		if v.Config.Namespace == namespace && v.Config.Name == name {
			return v
		}
	}
	return nil
}

const root = `{hosts: [shop.example.com], http: [{match: [{uri: {prefix: /a}}], name: r, delegate: {name: a, namespace: teams}}, {route: [{destination: {host: front}}]}]}`

func TestRoutesOfDelegatesTakeTheirPlace(t *testing.T) {
	s, _ := NewBuilder(Options{}).Apply(
		virtualService(t, "web/root", `{hosts: [shop], exportTo: ["*"], http: [
			{name: first, match: [{headers: {x: {exact: "1"}}}], route: [{destination: {host: front}}]},
			{name: r, match: [{name: m, uri: {prefix: /a}, gateways: [mesh, edge]}], delegate: {name: a, namespace: teams},
			 timeout: 3s, retries: {attempts: 1}, headers: {request: {set: {a: b}}}, mirror: {host: copy}, corsPolicy: {}},
			{route: [{destination: {host: front}}]}]}`),
		virtualService(t, "teams/a", `{http: [
			{name: l, match: [{name: e, uri: {exact: /a/b}}, {gateways: [web/edge]}], timeout: 1s, route: [{destination: {host: one, port: {number: 1}}}, {destination: {host: two.example.com}}]},
			{mirrors: [{destination: {host: three}}], route: [{destination: {host: three}}]}]}`),
	)
	want := parsed(t, new(networking.VirtualService), `{hosts: [shop], exportTo: ["*"], http: [
		{name: first, match: [{headers: {x: {exact: "1"}}}], route: [{destination: {host: front}}]},
		{name: r-l, match: [{name: m-e, uri: {exact: /a/b}, gateways: [mesh, web/edge]}, {name: m, uri: {prefix: /a}, gateways: [web/edge]}], timeout: 1s,
		 retries: {attempts: 1}, headers: {request: {set: {a: b}}}, mirror: {host: copy}, corsPolicy: {},
		 route: [{destination: {host: one.teams.svc.cluster.local, port: {number: 1}}}, {destination: {host: two.example.com}}]},
		{name: r, match: [{name: m, uri: {prefix: /a}, gateways: [mesh, web/edge]}], timeout: 3s,
		 retries: {attempts: 1}, headers: {request: {set: {a: b}}}, mirror: {host: copy}, corsPolicy: {},
		 mirrors: [{destination: {host: three.teams.svc.cluster.local}}], route: [{destination: {host: three.teams.svc.cluster.local}}]},
		{route: [{destination: {host: front}}]}]}`)
	row := rowOf(s, "web/root")
	if diff := cmp.Diff(want, row.Spec, protocmp.Transform()); diff != "" {
		t.Errorf("merged (-want +got):\n%s", diff)
	}
	if len(row.Faults) > 0 {
		t.Errorf("faults %v", row.Faults)
	}
	from := []config.Key{{Kind: api.VirtualService, Namespace: "teams", Name: "a"}, {Kind: api.VirtualService, Namespace: "web", Name: "root"}}
	if diff := cmp.Diff(from, row.From); diff != "" {
		t.Errorf("From (-want +got):\n%s", diff)
	}
	if got := config.Spec[*networking.VirtualService](row.Config).Http[1].Match[0].Gateways[1]; got != "edge" {
		t.Errorf("the object itself was changed: gateway %q", got)
	}
}

// TestDirectResponseOfARoot: the routes of a delegate inherit a response of the route that delegates,
// and keep their own.
func TestDirectResponseOfARoot(t *testing.T) {
	s, _ := NewBuilder(Options{}).Apply(
		virtualService(t, "web/root", `{hosts: [shop], exportTo: ["*"], http: [
			{delegate: {name: a, namespace: teams}, directResponse: {status: 503}}]}`),
		virtualService(t, "teams/a", `{http: [
			{match: [{uri: {exact: /a}}], directResponse: {status: 200}}, {route: [{destination: {host: one}}]}]}`),
	)
	want := parsed(t, new(networking.VirtualService), `{hosts: [shop], exportTo: ["*"], http: [
		{match: [{uri: {exact: /a}}], directResponse: {status: 200}},
		{directResponse: {status: 503}, route: [{destination: {host: one.teams.svc.cluster.local}}]}]}`)
	if diff := cmp.Diff(want, rowOf(s, "web/root").Spec, protocmp.Transform()); diff != "" {
		t.Errorf("merged (-want +got):\n%s", diff)
	}
}

func TestDelegatesThatCannotBeUsed(t *testing.T) {
	for name, tt := range map[string]struct {
		name, spec string
		want       string // fault
	}{
		"another name":  {"teams/b", `{http: [{route: [{destination: {host: one}}]}]}`, `there is no VirtualService "a" in namespace "teams": the route is left out`},
		"hosts":         {"teams/a", `{hosts: [x], http: [{route: [{destination: {host: one}}]}]}`, `VirtualService "teams/a" has hosts of its own, and a delegate must not: the route is left out`},
		"kept to teams": {"teams/a", `{exportTo: [.], http: [{route: [{destination: {host: one}}]}]}`, `VirtualService "teams/a" is not exported to namespace "web": the route is left out`},
		"exported":      {"teams/a", `{exportTo: [web], http: [{route: [{destination: {host: one}}]}]}`, ``},
		"delegates on":  {"teams/a", `{http: [{delegate: {name: c}}]}`, `http[0] of VirtualService "teams/a" is left out: a delegate must not delegate further`},
		"does not fit":  {"teams/a", `{http: [{match: [{uri: {prefix: /b}}], route: [{destination: {host: one}}]}]}`, `http[0] of VirtualService "teams/a" is left out: its match[0].uri does not lie within that of the route that delegates`},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := NewBuilder(Options{}).Apply(virtualService(t, "web/root", root), virtualService(t, tt.name, tt.spec))
			row := rowOf(s, "web/root")
			var got string
			for _, p := range row.Faults {
				if p.Field != "spec.http[0].delegate" || p.Key != row.Config.Key {
					t.Errorf("fault of %s, %s", p.Key, p.Field)
				}
				got += p.Reason
			}
			if got != tt.want {
				t.Errorf("fault %q, want %q", got, tt.want)
			}
			if n := len(row.Spec.Http); n != 1 && tt.want != "" {
				t.Errorf("%d routes are left, want the other one only", n)
			}
		})
	}
}

// A cycle cannot occur: a VirtualService with hosts is no delegate, and one without hosts does not
// delegate.
func TestVirtualServiceThatIsItsOwnDelegate(t *testing.T) {
	s, _ := NewBuilder(Options{}).Apply(virtualService(t, "teams/a", root))
	if row := rowOf(s, "teams/a"); len(row.Faults) != 1 || len(row.Spec.Http) != 1 {
		t.Errorf("faults %v, routes %v", row.Faults, row.Spec.Http)
	}
}

func TestMatchesOfDelegatesLieWithinTheRoots(t *testing.T) {
	for name, tt := range map[string]struct {
		root, leaf string
		want       string // the field in conflict
	}{
		"nothing":                 {`{}`, `{}`, ""},
		"root only":               {`{uri: {prefix: /a}, headers: {x: {exact: a}}, port: 80, gateways: [g]}`, `{}`, ""},
		"leaf only":               {`{}`, `{uri: {prefix: /a}, headers: {x: {exact: a}}, port: 80, gateways: [g], sourceNamespace: ns}`, ""},
		"longer prefix":           {`{uri: {prefix: /a}}`, `{uri: {prefix: /ab}}`, ""},
		"shorter prefix":          {`{uri: {prefix: /ab}}`, `{uri: {prefix: /a}}`, "uri"},
		"exact within prefix":     {`{uri: {prefix: /a}}`, `{uri: {exact: /ab}}`, ""},
		"exact beside prefix":     {`{uri: {prefix: /a}}`, `{uri: {exact: /b}}`, "uri"},
		"prefix within exact":     {`{uri: {exact: /a}}`, `{uri: {prefix: /a}}`, "uri"},
		"same exact":              {`{method: {exact: GET}}`, `{method: {exact: GET}}`, ""},
		"other exact":             {`{method: {exact: GET}}`, `{method: {exact: PUT}}`, "method"},
		"root regex":              {`{scheme: {regex: h.*}}`, `{scheme: {exact: http}}`, "scheme"},
		"leaf regex":              {`{authority: {prefix: h}}`, `{authority: {regex: h.*}}`, "authority"},
		"same regex":              {`{authority: {regex: h}}`, `{authority: {regex: h}}`, "authority"},
		"other headers":           {`{headers: {x: {exact: a}}}`, `{headers: {y: {exact: b}}}`, ""},
		"header":                  {`{headers: {x: {exact: a}}}`, `{headers: {x: {exact: b}}}`, "headers[x]"},
		"header that is there":    {`{headers: {x: {}}}`, `{headers: {x: {exact: b}}}`, "headers[x]"},
		"withoutHeaders":          {`{withoutHeaders: {x: {exact: a}}}`, `{withoutHeaders: {x: {exact: b}}}`, "withoutHeaders[x]"},
		"query":                   {`{queryParams: {x: {exact: a}}}`, `{queryParams: {x: {prefix: b}}}`, "queryParams[x]"},
		"case":                    {`{ignoreUriCase: true}`, `{}`, "ignoreUriCase"},
		"port":                    {`{port: 80}`, `{port: 81}`, "port"},
		"source namespace":        {`{sourceNamespace: a}`, `{sourceNamespace: b}`, "sourceNamespace"},
		"root's source namespace": {`{sourceNamespace: a}`, `{}`, "sourceNamespace"},
		"same source namespace":   {`{sourceNamespace: a}`, `{sourceNamespace: a}`, ""},
		"source labels":           {`{sourceLabels: {a: b}}`, `{sourceLabels: {a: c}}`, "sourceLabels[a]"},
		"more source labels":      {`{sourceLabels: {a: b}}`, `{sourceLabels: {c: d}}`, ""},
		"gateways":                {`{gateways: [a, b]}`, `{gateways: [c]}`, "gateways"},
		"fewer gateways":          {`{gateways: [a, b]}`, `{gateways: [b]}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			root, leaf := parsed(t, new(networking.HTTPMatchRequest), tt.root), parsed(t, new(networking.HTTPMatchRequest), tt.leaf)
			if got := conflictingField(root, leaf); got != tt.want {
				t.Errorf("conflict %q, want %q", got, tt.want)
			}
			matches, fault := intersectMatches([]*networking.HTTPMatchRequest{root}, []*networking.HTTPMatchRequest{leaf})
			if (fault == "") != (tt.want == "") || (len(matches) == 1) != (tt.want == "") {
				t.Errorf("%d matches and fault %q", len(matches), fault)
			}
		})
	}
}

func TestJoinedMatchAsksForBoth(t *testing.T) {
	root := parsed(t, new(networking.HTTPMatchRequest), `{uri: {prefix: /a}, scheme: {exact: http}, method: {exact: GET}, authority: {exact: h},
		headers: {x: {exact: a}, y: {}}, withoutHeaders: {o: {}}, queryParams: {q: {exact: a}}, port: 80, sourceLabels: {a: b}, gateways: [g], statPrefix: s}`)
	leaf := parsed(t, new(networking.HTTPMatchRequest), `{uri: {prefix: /a/b}, headers: {z: {exact: c}}, sourceLabels: {c: d}, sourceNamespace: ns}`)
	want := parsed(t, new(networking.HTTPMatchRequest), `{uri: {prefix: /a/b}, scheme: {exact: http}, method: {exact: GET}, authority: {exact: h},
		headers: {x: {exact: a}, y: {}, z: {exact: c}}, withoutHeaders: {o: {}}, queryParams: {q: {exact: a}}, port: 80, sourceLabels: {a: b, c: d},
		sourceNamespace: ns, gateways: [g], statPrefix: s}`)
	if diff := cmp.Diff(want, mergeMatches(root, leaf), protocmp.Transform()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestOnlyRootsOfADelegateChange(t *testing.T) {
	b := NewBuilder(Options{})
	before, _ := b.Apply(virtualService(t, "web/root", root), virtualService(t, "web/other", strings.ReplaceAll(root, "name: a", "name: b")),
		virtualService(t, "teams/a", `{http: [{route: [{destination: {host: one}}]}]}`))
	after, d := b.Apply(virtualService(t, "teams/a", `{http: [{route: [{destination: {host: two}}]}]}`))
	if rowOf(before, "web/root") == rowOf(after, "web/root") || rowOf(before, "web/other") != rowOf(after, "web/other") {
		t.Error("the roots' rows did not change as their delegates did")
	}
	if len(d.Configs) != 1 {
		t.Errorf("delta names %v, want the delegate", d.Configs)
	}
	gone, _ := b.Apply(mesh.Event{Op: mesh.Delete, Config: rowOf(after, "teams/a").Config})
	if row := rowOf(gone, "web/root"); len(row.Faults) != 1 || slices.ContainsFunc(row.From, func(k config.Key) bool { return k.Name == "a" }) {
		t.Errorf("without the delegate: faults %v, from %v", row.Faults, row.From)
	}
	back, _ := b.Apply(virtualService(t, "teams/a", `{http: [{route: [{destination: {host: two}}]}]}`))
	if row := rowOf(back, "web/root"); len(row.Faults) != 0 || len(row.Spec.Http) != 2 {
		t.Errorf("with it again: faults %v, routes %v", row.Faults, row.Spec.Http)
	}
}
