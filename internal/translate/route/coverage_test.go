package route

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	networking "istio.io/api/networking/v1alpha3"

	"golang.org/x/tools/txtar"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/google/go-cmp/cmp"

	"github.com/meshpilot/meshpilot/internal/config"
)

// TestEveryFieldIsHonouredOrReported walks the descriptor of VirtualService. testdata/coverage.txt names for a field the
// case that shows it at work, which must set it; "@room" says that the room has it. Unhonoured must report the others.
func TestEveryFieldIsHonouredOrReported(t *testing.T) {
	coverage := readCoverage(t)
	shown := map[string]map[string]bool{}
	for _, leaf := range leaves(new(networking.VirtualService).ProtoReflect().Descriptor(), "") {
		by, honoured := coverage[leaf]
		delete(coverage, leaf)
		switch {
		case !honoured:
			if !reports(Unhonoured(with(t, leaf)), leaf) {
				t.Errorf("%s: neither has a case, nor does Unhonoured report it", leaf)
			}
		case strings.HasPrefix(by, "@"):
			if reports(Unhonoured(with(t, leaf)), leaf) {
				t.Errorf("%s: is honoured by %s and reported all the same", leaf, by)
			}
		default:
			if shown[by] == nil {
				shown[by] = setBy(t, by)
			}
			if !shown[by][leaf] {
				t.Errorf("%s: its case %s does not set it", leaf, by)
			}
		}
	}
	for leaf := range coverage {
		t.Errorf("coverage.txt: VirtualService has no field %s", leaf)
	}
}

func readCoverage(t *testing.T) map[string]string {
	t.Helper()
	data, err := os.ReadFile("testdata/coverage.txt")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for s := bufio.NewScanner(bytes.NewReader(data)); s.Scan(); {
		if words := strings.Fields(s.Text()); len(words) == 2 && !strings.HasPrefix(s.Text(), "#") {
			out[words[0]] = words[1]
		}
	}
	return out
}

// setBy gives the fields that the VirtualServices of a case set.
func setBy(t *testing.T, name string) map[string]bool {
	t.Helper()
	archive, err := txtar.ParseFile(filepath.Join("testdata", name+".txtar"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{}
	for _, f := range archive.Files {
		if f.Name != "config.yaml" {
			continue
		}
		list, err := events(f.Data)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range list {
			if e.Config != nil && e.Config.Kind == "VirtualService" {
				populated(config.Spec[*networking.VirtualService](e.Config).ProtoReflect(), "", out)
			}
		}
	}
	return out
}

var index = regexp.MustCompile(`\[[^]]*\]`)

func reports(list []config.Problem, leaf string) bool {
	for _, p := range list {
		if index.ReplaceAllString(p.Field, "") == "spec."+leaf && p.Severity == config.Warning && p.Reason != "" {
			return true
		}
	}
	return false
}

// leaves lists the fields of a message that hold values, as paths of JSON names: "http.match.uri.exact".
func leaves(d protoreflect.MessageDescriptor, prefix string) []string {
	var out []string
	for i := range d.Fields().Len() {
		f := d.Fields().Get(i)
		path := prefix + f.JSONName()
		if m := valueMessage(f); m != nil {
			out = append(out, leaves(m, path+".")...)
		} else {
			out = append(out, path)
		}
	}
	return out
}

// valueMessage gives the message that a field's values are, nil for scalars and for messages that stand for one.
func valueMessage(f protoreflect.FieldDescriptor) protoreflect.MessageDescriptor {
	if f.IsMap() {
		f = f.MapValue()
	}
	if m := f.Message(); m != nil && m.ParentFile().Package() != "google.protobuf" {
		return m
	}
	return nil
}

// populated notes the leaves that a message sets.
func populated(m protoreflect.Message, prefix string, out map[string]bool) {
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		path := prefix + f.JSONName()
		switch {
		case valueMessage(f) == nil:
			out[path] = true
		case f.IsMap():
			v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
				populated(v.Message(), path+".", out)
				return true
			})
		case f.IsList():
			for i := range v.List().Len() {
				populated(v.List().Get(i).Message(), path+".", out)
			}
		default:
			populated(v.Message(), path+".", out)
		}
		return true
	})
}

// with makes a VirtualService that sets one leaf and nothing else, by way of its JSON.
func with(t *testing.T, leaf string) *networking.VirtualService {
	t.Helper()
	names := strings.Split(leaf, ".")
	var fields []protoreflect.FieldDescriptor
	for d := new(networking.VirtualService).ProtoReflect().Descriptor(); len(fields) < len(names); {
		f := d.Fields().ByJSONName(names[len(fields)])
		fields = append(fields, f)
		d = valueMessage(f)
	}
	js := ""
	for i := len(fields) - 1; i >= 0; i-- {
		f := fields[i]
		if js == "" {
			js = example(f)
		}
		switch {
		case f.IsMap():
			js = `{"x": ` + js + `}`
		case f.IsList():
			js = "[" + js + "]"
		}
		js = `{"` + f.JSONName() + `": ` + js + `}`
	}
	vs := new(networking.VirtualService)
	if err := protojson.Unmarshal([]byte(js), vs); err != nil {
		t.Fatalf("%s: %v", js, err)
	}
	return vs
}

// example gives a value of a leaf in JSON that is not its zero.
func example(f protoreflect.FieldDescriptor) string {
	if f.IsMap() {
		f = f.MapValue()
	}
	switch f.Kind() {
	case protoreflect.StringKind, protoreflect.BytesKind:
		return `"xxxx"`
	case protoreflect.BoolKind:
		return "true"
	case protoreflect.EnumKind:
		return "1"
	case protoreflect.MessageKind:
		switch f.Message().Name() {
		case "Duration":
			return `"1s"`
		case "BoolValue":
			return "true"
		}
	}
	return "1"
}

func TestUnhonoured(t *testing.T) {
	tests := map[string]struct {
		spec string
		want []string // fields
	}{
		"nothing": {`{hosts: [a], http: [{headers: {request: {set: {host: a, ":authority": b, x: z}, add: {Host: c}}}, route: [{destination: {host: a}}]}]}`, nil},
		"gateway": {`{gateways: [mesh, ns/ingress]}`, []string{"spec.gateways[1]"}},
		"claims": {
			`{http: [{}, {match: [{}, {headers: {"@request.auth.claims.a": {exact: b}}, withoutHeaders: {"@request.auth.claims[b]": {}}}]}]}`,
			[]string{"spec.http[1].match[1].headers[@request.auth.claims.a]", "spec.http[1].match[1].withoutHeaders[@request.auth.claims[b]]"},
		},
		"reserved headers": {
			`{http: [{headers: {request: {set: {":path": a}, remove: [x, host]}, response: {set: {host: a}}}, route: [{headers: {response: {add: {":status": a}}}}]}]}`,
			[]string{
				"spec.http[0].headers.request.set[:path]", "spec.http[0].headers.request.remove[1]",
				"spec.http[0].headers.response.set[host]", "spec.http[0].route[0].headers.response.add[:status]",
			},
		},
		"faults": {
			`{http: [{fault: {delay: {exponentialDelay: 1s}, abort: {http2Error: X}}}]}`,
			[]string{"spec.http[0].fault.delay.exponentialDelay", "spec.http[0].fault.abort.http2Error"},
		},
		"caller's subnet": {`{tcp: [{match: [{}, {sourceSubnet: 10.0.0.0/8}]}]}`, []string{"spec.tcp[0].match[1].sourceSubnet"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			list, err := events([]byte("kind: VirtualService\nmetadata: {name: a}\nspec: " + tt.spec))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, p := range Unhonoured(config.Spec[*networking.VirtualService](list[0].Config)) {
				got = append(got, p.Field)
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Errorf("fields (-want +got):\n%s", d)
			}
		})
	}
}
