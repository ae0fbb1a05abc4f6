package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"sigs.k8s.io/yaml"

	security "istio.io/api/security/v1beta1"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/config/decode"
	"github.com/meshpilot/meshpilot/test/support/golden"
)

// specCase is one spec of a golden file: a line "--- description", the YAML, and below it the
// expected Problems as comments.
type specCase struct{ shows, spec string }

func specCases(section []byte) []specCase {
	var out []specCase
	for line := range strings.Lines(string(section)) {
		shows, isHead := strings.CutPrefix(line, "--- ")
		switch {
		case isHead:
			out = append(out, specCase{shows: strings.TrimSpace(shows)})
		case strings.HasPrefix(line, "# error ") || strings.HasPrefix(line, "# warning ") || len(out) == 0:
		default:
			out[len(out)-1].spec += line
		}
	}
	return out
}

// kindOf returns the kind that a golden file is about: "VirtualService-http.txtar" is about VirtualService.
func kindOf(t *testing.T, file string) api.KindInfo {
	t.Helper()
	kind, _, _ := strings.Cut(file, "-")
	info, known := api.Info(api.Kind(kind))
	if !known {
		t.Fatalf("%s: no such kind", file)
	}
	return info
}

func specOf(t testing.TB, info api.KindInfo, text string) proto.Message {
	t.Helper()
	body, err := yaml.YAMLToJSONStrict([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	spec, problems := decode.Spec(info, body)
	if len(problems) > 0 {
		t.Fatalf("%v", problems)
	}
	return spec
}

func validated(t testing.TB, info api.KindInfo, spec proto.Message) []config.Problem {
	t.Helper()
	c, err := config.New(config.Meta{Key: config.Key{Kind: info.Kind, Namespace: "default", Name: "case"}}, spec)
	if err != nil {
		t.Fatal(err)
	}
	return config.Validate(c)
}

// TestValidate compares all Problems of all specs in testdata/validate with the comments below
// them. A case called "valid …" has no Problem, every other case has one.
func TestValidate(t *testing.T) {
	golden.Run(t, "testdata/validate/*.txtar", func(t *testing.T, c *golden.Case) {
		info := kindOf(t, c.Name)
		var got strings.Builder
		for _, test := range specCases(c.Input("cases")) {
			t.Run(test.shows, func(t *testing.T) {
				problems := validated(t, info, specOf(t, info, test.spec))
				if strings.HasPrefix(test.shows, "valid") != (len(problems) == 0) {
					t.Errorf("got %d problems: %v", len(problems), problems)
				}
				fmt.Fprintf(&got, "--- %s\n%s", test.shows, test.spec)
				for _, p := range problems {
					fmt.Fprintf(&got, "# %s %s: %s\n", p.Severity, p.Field, p.Reason)
				}
			})
		}
		c.Compare(t, "cases", []byte(got.String()))
	})
}

// TestEveryKindHasCases checks that every kind of Istio has cases, so that a new kind is not left
// without validation.
func TestEveryKindHasCases(t *testing.T) {
	for _, info := range api.Kinds() {
		if !info.Istio() {
			continue
		}
		files, err := filepath.Glob("testdata/validate/" + string(info.Kind) + "*.txtar")
		if err != nil || len(files) == 0 {
			t.Errorf("no file testdata/validate/%s*.txtar: %v", info.Kind, err)
		}
	}
}

func TestValidateChecksNames(t *testing.T) {
	info, _ := api.Info(api.DestinationRule)
	spec := specOf(t, info, "host: reviews")
	for _, test := range []struct {
		key    config.Key
		labels map[string]string
		field  string
	}{
		{config.Key{Kind: api.DestinationRule, Namespace: "default"}, nil, "metadata.name"},
		{config.Key{Kind: api.DestinationRule, Namespace: "default", Name: "A_b"}, nil, "metadata.name"},
		{config.Key{Kind: api.DestinationRule, Namespace: "a.b", Name: "a"}, nil, "metadata.namespace"},
		{config.Key{Kind: api.DestinationRule, Name: "a"}, nil, "metadata.namespace"},
		{config.Key{Kind: api.DestinationRule, Namespace: "default", Name: "a.b-c"}, map[string]string{"a b": ""}, "metadata.labels[a b]"},
		{config.Key{Kind: api.DestinationRule, Namespace: "default", Name: "a.b-c"}, map[string]string{"a": "b"}, ""},
		{config.Key{Kind: api.Namespace, Name: "a"}, nil, ""},
	} {
		c, err := config.New(config.Meta{Key: test.key, Labels: test.labels, Origin: "f.yaml#1:1"}, spec)
		if err != nil {
			t.Fatal(err)
		}
		var got string
		for _, p := range config.Validate(c) {
			got = p.Field
			if p.Key != test.key || p.Origin != "f.yaml#1:1" {
				t.Errorf("problem %v does not name its object", p)
			}
		}
		if got != test.field {
			t.Errorf("%v: got a problem in %q, want %q", test.key, got, test.field)
		}
	}
}

// TestGatewayNames: the name of a Gateway has no dots, unless istiod has converted it.
func TestGatewayNames(t *testing.T) {
	info, _ := api.Info(api.Gateway)
	spec := specOf(t, info, "servers: [{port: {number: 80, name: a, protocol: HTTP}, hosts: [a.com]}]")
	for _, test := range []struct {
		name, semantics string
		problems        int
	}{{"web", "", 0}, {"web.example", "", 1}, {"web.example", "other", 1}, {"web.example", "gateway", 0}} {
		c, err := config.New(config.Meta{
			Key:         config.Key{Kind: api.Gateway, Namespace: "default", Name: test.name},
			Annotations: map[string]string{"internal.istio.io/gateway-semantics": test.semantics},
		}, spec)
		if err != nil {
			t.Fatal(err)
		}
		problems := config.Validate(c)
		if len(problems) != test.problems || len(problems) > 0 && problems[0].Field != "metadata.name" {
			t.Errorf("%q, converted %q: %v", test.name, test.semantics, problems)
		}
	}
}

// FuzzValidate validates messages of every kind made of arbitrary bytes: none may cause a panic,
// and the Problems are the same every time.
func FuzzValidate(f *testing.F) {
	kinds := istioKinds()
	for i, info := range kinds {
		for _, spec := range seedSpecs(f, info) {
			body, err := proto.Marshal(spec)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(uint8(i), body)
		}
	}
	f.Fuzz(func(t *testing.T, kind uint8, body []byte) {
		info := kinds[int(kind)%len(kinds)]
		spec := info.NewSpec()
		if proto.Unmarshal(body, spec) != nil {
			return
		}
		first, second := validated(t, info, spec), validated(t, info, spec)
		if fmt.Sprint(first) != fmt.Sprint(second) {
			t.Errorf("found %v, then %v", first, second)
		}
	})
}

func istioKinds() []api.KindInfo {
	var kinds []api.KindInfo
	for _, info := range api.Kinds() {
		if info.Istio() {
			kinds = append(kinds, info)
		}
	}
	return kinds
}

// seedSpecs returns the specs of a kind's golden files.
func seedSpecs(f *testing.F, info api.KindInfo) []proto.Message {
	f.Helper()
	files, err := filepath.Glob("testdata/validate/" + string(info.Kind) + "*.txtar")
	if err != nil {
		f.Fatal(err)
	}
	var out []proto.Message
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for _, test := range specCases(text) {
			out = append(out, specOf(f, info, test.spec))
		}
	}
	return out
}

// TestDryRun compares the parsing of the annotation istio.io/dry-run with the booleans that Istio
// accepts.
func TestDryRun(t *testing.T) {
	for text, want := range map[string]bool{"true": true, "True": true, "TRUE": true, "t": true, "1": true, "false": false, "0": false} {
		c := &config.Config{Meta: config.Meta{Annotations: map[string]string{"istio.io/dry-run": text}}}
		if tried, err := config.DryRun(c); tried != want || err != nil {
			t.Errorf("%q: %t, %v", text, tried, err)
		}
	}
	c := &config.Config{Meta: config.Meta{
		Key:         config.Key{Kind: api.AuthorizationPolicy, Namespace: "default", Name: "p"},
		Annotations: map[string]string{"istio.io/dry-run": "yes"},
	}, Spec: &security.AuthorizationPolicy{}}
	if tried, err := config.DryRun(c); tried || err == nil {
		t.Errorf("yes: %t, %v", tried, err)
	}
	problems := config.Validate(c)
	if len(problems) != 1 || problems[0].Severity != config.Warning ||
		problems[0].Field != "metadata.annotations[istio.io/dry-run]" {
		t.Errorf("problems %v", problems)
	}
}
