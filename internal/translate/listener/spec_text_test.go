package listener

import (
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// TestTextIsComplete changes each field of a Spec, one at a time: each time the text must be
// another, for it is the key under which the finished listener is remembered.
func TestTextIsComplete(t *testing.T) {
	s := Spec{
		More: []string{"::"}, NoInspection: []uint32{80}, From: []config.Key{{Kind: api.Service, Namespace: "a", Name: "b"}},
		Chains: []Chain{
			{HTTP: &HTTP{Inbound: new(InboundRoute)}, TLS: &TLS{Certificates: []string{"kubernetes://cert"}, Names: []string{"n"}, Hashes: []string{"h"}, Keys: []string{"k"}, Ciphers: []string{"c"}, Protocols: []string{"h2"}}, Match: Match{Prefixes: []string{"10.0.0.0/8"}, SNI: []string{"a.example.com"}}},
			{TCP: &TCP{Clusters: []WeightedCluster{{Name: "a", Weight: 1}}}},
		},
		Default: Chain{TCP: &TCP{Clusters: []WeightedCluster{{Name: "b"}}}},
	}
	seen := map[string]string{s.String(): "the Spec as it was"}
	fields := 0
	walk(reflect.ValueOf(&s).Elem(), "Spec", func(path string) {
		fields++
		if other := seen[s.String()]; other != "" {
			t.Errorf("%s changed, and the text is that of %s", path, other)
		}
		seen[s.String()] = path
	})
	if fields < 50 {
		t.Errorf("changed only %d fields", fields)
	}
}

// walk sets every field below v to another value, calls changed, and puts it back. Lists are also made longer.
func walk(v reflect.Value, path string, changed func(path string)) {
	with := func(to reflect.Value) {
		was := reflect.New(v.Type()).Elem()
		was.Set(v)
		v.Set(to)
		changed(path)
		v.Set(was)
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			walk(v.Field(i), path+"."+v.Type().Field(i).Name, changed)
		}
	case reflect.Slice:
		for i := range v.Len() {
			walk(v.Index(i), path+"[]", changed)
		}
		if v.Len() > 0 {
			with(reflect.Append(v.Slice3(0, v.Len(), v.Len()), v.Index(0)))
			with(reflect.Zero(v.Type()))
		}
	case reflect.Pointer:
		if !v.IsNil() {
			walk(v.Elem(), path, changed)
		}
	case reflect.Bool:
		with(reflect.ValueOf(!v.Bool()))
	case reflect.String:
		with(reflect.ValueOf(v.String() + " x,y").Convert(v.Type()))
	case reflect.Uint32:
		with(reflect.ValueOf(uint32(v.Uint() + 7)))
	case reflect.Int32, reflect.Int64:
		with(reflect.ValueOf(v.Int() + 7).Convert(v.Type()))
	default:
		panic("a field of a kind that the test does not know: " + path)
	}
}

// TestTextIsUnambiguous searches for two different Specs with the same text, composed of words that
// the text format itself uses.
func TestTextIsUnambiguous(t *testing.T) {
	word := rapid.SampledFrom([]string{"", "a", "sni", "to", "=>", "a,b", "a b", ", mongo", "transport", "raw_buffer", "if http", "port", "1", "\n", `"a"`, "weight", "from"})
	words := rapid.SliceOfN(word, 0, 3)
	seen := map[string]Chain{}
	rapid.Check(t, func(r *rapid.T) {
		c := Chain{Name: word.Draw(r, "name"), Match: Match{
			DestinationPort: rapid.Uint32Range(0, 1).Draw(r, "port"), Prefixes: words.Draw(r, "prefixes"), SNI: words.Draw(r, "sni"),
			Transport: word.Draw(r, "transport"), HTTP: rapid.Bool().Draw(r, "http"),
		}}
		if rapid.Bool().Draw(r, "is tcp") {
			c.TCP = &TCP{StatPrefix: word.Draw(r, "prefix"), Mongo: rapid.Bool().Draw(r, "mongo")}
			for range rapid.IntRange(1, 3).Draw(r, "clusters") {
				c.TCP.Clusters = append(c.TCP.Clusters, WeightedCluster{word.Draw(r, "cluster"), rapid.Uint32Range(0, 1).Draw(r, "weight")})
			}
		} else {
			c.HTTP = &HTTP{StatPrefix: word.Draw(r, "prefix"), Route: word.Draw(r, "route"), GRPCWeb: rapid.Bool().Draw(r, "grpc-web")}
		}
		text := string(c.appendText(nil, true))
		if other, there := seen[text]; there && !same(other, c) {
			r.Fatalf("%+v and %+v are both %q", other, c, text)
		}
		seen[text] = c
	})
}

// same compares two Specs; empty and nil lists are equal.
func same(a, b Chain) bool {
	for _, m := range []*Match{&a.Match, &b.Match} {
		if len(m.Prefixes) == 0 {
			m.Prefixes = nil
		}
		if len(m.SNI) == 0 {
			m.SNI = nil
		}
	}
	return reflect.DeepEqual(a, b)
}
