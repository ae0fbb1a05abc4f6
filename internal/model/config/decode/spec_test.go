package decode

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	networking "istio.io/api/networking/v1alpha3"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/meshpilot/meshpilot/internal/model/api"
)

func infoOf(t testing.TB, kind api.Kind) api.KindInfo {
	t.Helper()
	info, known := api.Info(kind)
	if !known {
		t.Fatalf("no kind %s", kind)
	}
	return info
}

func TestSpecNamesEveryFault(t *testing.T) {
	for _, test := range []struct {
		name string
		kind api.Kind
		in   string
		want []string
	}{
		{"nothing", api.VirtualService, "", nil},
		{"null", api.VirtualService, "null", nil},
		{"not JSON", api.VirtualService, "{", []string{"spec: not valid JSON: unexpected EOF"}},
		{"two values", api.VirtualService, "{} {}", []string{"spec: not valid JSON: more than one value"}},
		{"not an object", api.VirtualService, "[]", []string{"spec: must be an object, found a list"}},
		{"JSON and proto names", api.VirtualService, `{"http": [{"corsPolicy": {}, "direct_response": {"status": 200}}]}`, nil},
		{"one field under two names", api.VirtualService, `{"exportTo": ["a"], "export_to": ["b"]}`, []string{`spec.exportTo: is set twice, as "exportTo" and "export_to"`}},
		{"unknown fields, near and far", api.VirtualService, `{"host": ["a"], "http": [{"rout": [], "zzz": 1}]}`, []string{
			`spec.host: unknown field; did you mean "hosts"?`,
			`spec.http[0].rout: unknown field; did you mean "route"?`,
			`spec.http[0].zzz: unknown field`,
		}},
		{"case", api.VirtualService, `{"exportto": []}`, []string{`spec.exportto: unknown field; did you mean "exportTo"?`}},
		{"wrong types", api.VirtualService, `{"hosts": "a", "gateways": [1], "http": {}, "tls": [null], "tcp": [{"match": [{"port": "x", "sourceLabels": {"a": 1, "b": null}}]}]}`, []string{
			`spec.gateways[0]: must be a string, found the number 1 (write it in quotes)`,
			`spec.hosts: must be a list, found the string "a"`,
			`spec.http: must be a list, found an object`,
			`spec.tcp[0].match[0].port: must be a whole number, found the string "x"`,
			`spec.tcp[0].match[0].sourceLabels[a]: must be a string, found the number 1 (write it in quotes)`,
			`spec.tcp[0].match[0].sourceLabels[b]: must not be null`,
			`spec.tls[0]: must not be null`,
		}},
		{"both of a oneof", api.VirtualService, `{"http": [{"match": [{"uri": {"exact": "/", "prefix": "/"}}]}]}`, []string{
			`spec.http[0].match[0].uri.prefix: must not be set together with exact`,
		}},
		{"numbers", api.VirtualService, `{"http": [{"route": [{"weight": 1.5}, {"weight": 3000000000}, {"weight": "5"}, {"weight": 1e1}, {"weight": true}], "fault": {"delay": {"percentage": {"value": "x"}}}}]}`, []string{
			`spec.http[0].fault.delay.percentage.value: must be a number, found the string "x"`,
			`spec.http[0].route[0].weight: must be a whole number, found the number 1.5`,
			`spec.http[0].route[1].weight: 3000000000 is out of range`,
			`spec.http[0].route[4].weight: must be a whole number, found true`,
		}},
		{"unsigned", api.ServiceEntry, `{"ports": [{"number": -1}, {"number": 4294967296}]}`, []string{
			`spec.ports[0].number: -1 is out of range`, `spec.ports[1].number: 4294967296 is out of range`,
		}},
		{"enums", api.ServiceEntry, `{"location": "OUTSIDE", "resolution": 17}`, []string{
			`spec.location: unknown value "OUTSIDE", must be one of MESH_EXTERNAL, MESH_INTERNAL`,
			`spec.resolution: unknown value 17, must be one of NONE, STATIC, DNS, DNS_ROUND_ROBIN, DYNAMIC_DNS`,
		}},
		{"enums in other forms", api.ServiceEntry, `{"location": true, "resolution": 2}`, []string{
			`spec.location: must be one of MESH_EXTERNAL, MESH_INTERNAL, found true`,
		}},
		{"wrappers", api.DestinationRule, `{"trafficPolicy": {"tls": {"insecureSkipVerify": "yes"}, "outlierDetection": {"consecutive5xxErrors": -1}}}`, []string{
			`spec.trafficPolicy.outlierDetection.consecutive5xxErrors: -1 is out of range`,
			`spec.trafficPolicy.tls.insecureSkipVerify: must be true or false, found the string "yes"`,
		}},
		{"map keys", api.PeerAuthentication, `{"portLevelMtls": {"http": {"mode": "STRICT"}, "80": {"mode": "OFF"}}}`, []string{
			`spec.portLevelMtls[80].mode: unknown value "OFF", must be one of UNSET, DISABLE, PERMISSIVE, STRICT`,
			`spec.portLevelMtls[http]: key "http" must be a whole number in range`,
		}},
		{"structs hold anything", api.EnvoyFilter, `{"configPatches": [{"patch": {"value": {"a": [1, null, {"b": true}]}}}, {"patch": {"value": 1}}]}`, []string{
			`spec.configPatches[1].patch.value: must be an object, found the number 1`,
		}},
		{"bytes", api.VirtualService, `{"http": [{"directResponse": {"body": {"bytes": "dW5rbm93biBlcnJvcg=="}}}, {"directResponse": {"body": {"bytes": "%"}}}]}`, []string{
			`spec.http[1].directResponse.body.bytes: must be bytes in base64, found the string "%"`,
		}},
		{"durations", api.VirtualService, `{"http": [{"timeout": "1h"}, {"timeout": ""}, {"timeout": "5"}, {"timeout": 5}, {"timeout": "99999999999s"}]}`, []string{
			`spec.http[1].timeout: "" is not a duration such as "1.5s" or "1m"`,
			`spec.http[2].timeout: "5" is not a duration such as "1.5s" or "1m"`,
			`spec.http[3].timeout: must be a duration in quotes such as "1.5s" or "1m", found the number 5`,
			`spec.http[4].timeout: "99999999999s" is not a duration such as "1.5s" or "1m"`,
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			spec, problems := Spec(infoOf(t, test.kind), []byte(test.in))
			var got []string
			for _, p := range problems {
				got = append(got, p.Field+": "+p.Reason)
			}
			slices.Sort(got)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if (spec == nil) != (len(problems) > 0) {
				t.Errorf("got spec %v with problems %v", spec, problems)
			}
		})
	}
}

func TestSpecReadsEveryForm(t *testing.T) {
	spec, problems := Spec(infoOf(t, api.VirtualService), []byte(`{"hosts": ["a"], "http": [{
		"timeout": "1m30.5s", "retries": {"attempts": "3", "per_try_timeout": "-5ms", "retryRemoteLocalities": true},
		"route": [{"weight": 1e1}], "match": null
	}]}`))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	route := spec.(*networking.VirtualService).GetHttp()[0]
	if d := route.GetTimeout().AsDuration().String(); d != "1m30.5s" {
		t.Errorf("timeout %s", d)
	}
	if d := route.GetRetries().GetPerTryTimeout().AsDuration().String(); d != "-5ms" {
		t.Errorf("perTryTimeout %s", d)
	}
	if a, w := route.GetRetries().GetAttempts(), route.GetRoute()[0].GetWeight(); a != 3 || w != 10 {
		t.Errorf("attempts %d, weight %d", a, w)
	}
	if !route.GetRetries().GetRetryRemoteLocalities().GetValue() {
		t.Error("retryRemoteLocalities is false")
	}
}

// FuzzSpec compares the decoder with protojson: it may refuse more (protojson accepts a duration
// without a unit), but what it accepts must be decodable by protojson, except for our additional
// forms of durations.
func FuzzSpec(f *testing.F) {
	for _, seed := range []string{
		`{"hosts": ["a"], "http": [{"timeout": "1m", "route": [{"weight": 5}]}]}`,
		`{"portLevelMtls": {"80": {"mode": "STRICT"}}}`,
		`{"trafficPolicy": {"tls": {"insecureSkipVerify": true}, "outlierDetection": {"consecutive5xxErrors": 1}}}`,
		`{"configPatches": [{"patch": {"value": {"a": [1, null]}}}]}`,
		`{"resolution": 2, "endpoints": [{"weight": "5"}]}`,
	} {
		for kind := range uint8(15) {
			f.Add(kind, []byte(seed))
		}
	}
	var kinds []api.KindInfo
	for _, info := range api.Kinds() {
		if info.Istio() {
			kinds = append(kinds, info)
		}
	}
	f.Fuzz(func(t *testing.T, kind uint8, body []byte) {
		info := kinds[int(kind)%len(kinds)]
		spec, problems := Spec(info, body)
		for _, p := range problems {
			if p.Field == "spec" && json.Valid(body) && !strings.HasPrefix(p.Reason, "must be") {
				t.Errorf("the walk let pass what protojson refuses: %s", p.Reason)
			}
		}
		other := info.NewSpec()
		if protojson.Unmarshal(body, other) != nil {
			return
		}
		if spec == nil {
			t.Skip() // stricter, as it may be
		}
		if diff := cmp.Diff(other, spec, protocmp.Transform()); diff != "" && !proto.Equal(other, spec) {
			t.Errorf("protojson reads it otherwise:\n%s", diff)
		}
	})
}
