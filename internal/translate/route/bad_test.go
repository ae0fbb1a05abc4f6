package route

import (
	"slices"
	"strings"
	"testing"

	networking "istio.io/api/networking/v1alpha3"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/google/go-cmp/cmp"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// TestBadVirtualServices adds invalid objects to the mesh as if they had not been validated. Each
// is reported with its field, and the routes of other services are unchanged. Package analysis
// reports names that do not exist.
func TestBadVirtualServices(t *testing.T) {
	to := "route: [{destination: {host: reviews}}]"
	for name, tt := range map[string]struct{ spec, field string }{
		"no route":           {"{hosts: [reviews]}", "spec"},
		"no action":          {"{hosts: [reviews], http: [{timeout: 1s}]}", "spec.http[0]"},
		"two actions":        {"{hosts: [reviews], http: [{redirect: {uri: /a}, " + to + "}]}", "spec.http[0]"},
		"delegate and route": {"{hosts: [reviews], http: [{delegate: {name: a}, " + to + "}]}", "spec.http[0]"},
		"no destination": {
			"{hosts: [reviews], http: [{route: [{weight: 1}]}]}",
			"spec.http[0].route[0].destination",
		},
		"the host of others": {"{hosts: ['*'], http: [{" + to + "}]}", "spec.hosts[0]"},
		"a host twice":       {"{hosts: [reviews, reviews], http: [{" + to + "}]}", "spec.hosts[1]"},
		"overlapping hosts": {
			"{hosts: ['*.default.svc.cluster.local', reviews.default.svc.cluster.local], http: [{" + to + "}]}",
			"spec.hosts[1]",
		},
		"no hostname": {"{hosts: ['a b'], http: [{" + to + "}]}", "spec.hosts[0]"},
		"weights of nothing": {
			"{hosts: [reviews], http: [{route: [{destination: {host: reviews}}, {destination: {host: reviews}}]}]}",
			"spec.http[0].route",
		},
		"a weight below zero": {
			"{hosts: [reviews], http: [{route: [{destination: {host: reviews}, weight: -1}]}]}",
			"spec.http[0].route[0].weight",
		},
		"port 0": {
			"{hosts: [reviews], http: [{route: [{destination: {host: reviews, port: {}}}]}]}",
			"spec.http[0].route[0].destination.port.number",
		},
		"a port too high": {
			"{hosts: [reviews], http: [{match: [{port: 70000}], " + to + "}]}",
			"spec.http[0].match[0].port",
		},
		"a timeout below zero": {"{hosts: [reviews], http: [{timeout: -1s, " + to + "}]}", "spec.http[0].timeout"},
		"no expression": {
			"{hosts: [reviews], http: [{match: [{uri: {regex: '('}}], " + to + "}]}",
			"spec.http[0].match[0].uri.regex",
		},
		"no header's name": {
			"{hosts: [reviews], http: [{match: [{headers: {'a b': {}}}], " + to + "}]}",
			"spec.http[0].match[0].headers[a b]",
		},
		"a claim": {
			"{hosts: [reviews], http: [{match: [{headers: {'@request.auth.claims.a': {}}}], " + to + "}]}",
			"spec.http[0].match[0].headers[@request.auth.claims.a]",
		},
		"a path that is set": {
			"{hosts: [reviews], http: [{headers: {request: {set: {':path': /}}}, " + to + "}]}",
			"spec.http[0].headers.request.set[:path]",
		},
		"a host that is removed": {
			"{hosts: [reviews], http: [{headers: {request: {remove: [Host]}}, " + to + "}]}",
			"spec.http[0].headers.request.remove[0]",
		},
		"no command": {
			"{hosts: [reviews], http: [{headers: {request: {set: {a: '50%'}}}, " + to + "}]}",
			"spec.http[0].headers.request.set[a]",
		},
		"no condition of retries": {
			"{hosts: [reviews], http: [{retries: {attempts: 1, retryOn: sometimes}, " + to + "}]}",
			"spec.http[0].retries.retryOn",
		},
		"retries below zero": {
			"{hosts: [reviews], http: [{retries: {attempts: -1}, " + to + "}]}",
			"spec.http[0].retries.attempts",
		},
		"an abort by HTTP/2 error": {
			"{hosts: [reviews], http: [{fault: {abort: {http2Error: PROTOCOL_ERROR, percentage: {value: 1}}}, " + to + "}]}",
			"spec.http[0].fault.abort.http2Error",
		},
		"a delay without bounds": {
			"{hosts: [reviews], http: [{fault: {delay: {exponentialDelay: 1s, percentage: {value: 1}}}, " + to + "}]}",
			"spec.http[0].fault.delay.exponentialDelay",
		},
		"no gRPC status": {
			"{hosts: [reviews], http: [{fault: {abort: {grpcStatus: BAD, percentage: {value: 1}}}, " + to + "}]}",
			"spec.http[0].fault.abort.grpcStatus",
		},
		"no HTTP status": {
			"{hosts: [reviews], http: [{directResponse: {status: 42}}]}",
			"spec.http[0].directResponse.status",
		},
		"more than all": {
			"{hosts: [reviews], http: [{mirror: {host: reviews}, mirrorPercentage: {value: 101}, " + to + "}]}",
			"spec.http[0].mirrorPercentage.value",
		},
		"a mirror of two kinds": {
			"{hosts: [reviews], http: [{mirror: {host: reviews}, mirrors: [{destination: {host: reviews}}], " + to + "}]}",
			"spec.http[0].mirrors",
		},
		"a redirect to nowhere": {"{hosts: [reviews], http: [{redirect: {}}]}", "spec.http[0].redirect"},
		"no code of a redirect": {
			"{hosts: [reviews], http: [{redirect: {uri: /, redirectCode: 304}}]}",
			"spec.http[0].redirect.redirectCode",
		},
		"a rewrite of nothing": {"{hosts: [reviews], http: [{rewrite: {}, " + to + "}]}", "spec.http[0].rewrite"},
		"a group that is not there": {
			"{hosts: [reviews], http: [{rewrite: {uriRegexRewrite: {match: a, rewrite: '\\1'}}, " + to + "}]}",
			"spec.http[0].rewrite.uriRegexRewrite.rewrite",
		},
		"a huge answer": {
			"{hosts: [reviews], http: [{directResponse: {status: 200, body: {string: '" + strings.Repeat("x", 2<<20) + "'}}}]}",
			"spec.http[0].directResponse.body",
		},
		"a method by policy": {
			"{hosts: [reviews], http: [{corsPolicy: {allowMethods: [FETCH]}, " + to + "}]}",
			"spec.http[0].corsPolicy.allowMethods[0]",
		},
		"nobody as delegate": {
			"{hosts: [reviews], http: [{delegate: {name: nobody}}]}", "spec.http[0].delegate",
		},
		"itself as delegate":        {"{hosts: [reviews], http: [{delegate: {name: bad}}]}", "spec.http[0].delegate"},
		"a delegate that delegates": {"{http: [{delegate: {name: bad}}]}", "spec.http[0].delegate"},
	} {
		t.Run(name, func(t *testing.T) {
			text := []byte(twoServices + virtualService("ratings", "v1"))
			without, with := newWorld(t, text, nil, nil), newWorld(t, text, nil, nil)
			list, err := events([]byte("kind: VirtualService\nmetadata: {name: bad}\nspec: " + tt.spec))
			if err != nil {
				t.Fatal(err)
			}
			with.builder.Apply(list...)
			if told := fieldsToldOf(with, list[0]); !slices.Contains(told, tt.field) {
				t.Errorf("%s is not reported, got %v", tt.field, told)
			}
			for _, r := range []string{"80", "9080"} {
				want, got := servedBy(t, without, r, "ratings"), servedBy(t, with, r, "ratings")
				if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
					t.Errorf("%s: the routes of another service (-without +with):\n%s", r, diff)
				}
			}
		})
	}
}

// fieldsToldOf returns the fields of an object that there are Problems about.
func fieldsToldOf(w *world, e mesh.Event) []string {
	found := append(config.Validate(e.Config), Unhonoured(config.Spec[*networking.VirtualService](e.Config))...)
	for _, row := range w.builder.Current().VirtualServices() {
		if row.Config == e.Config {
			found = append(found, row.Faults...)
		}
	}
	var fields []string
	for _, p := range found {
		fields = append(fields, p.Field)
	}
	return fields
}

// servedBy returns the virtual hosts of a service.
func servedBy(t *testing.T, w *world, name, service string) []*routev3.VirtualHost {
	t.Helper()
	hosts := decoded(t, NewGenerator().Named(w.view(), name)).GetVirtualHosts()
	return slices.DeleteFunc(
		hosts,
		func(h *routev3.VirtualHost) bool { return !strings.HasPrefix(h.Name, service+".") },
	)
}
