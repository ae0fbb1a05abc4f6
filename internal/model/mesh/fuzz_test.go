package mesh

import (
	"encoding/json"
	"testing"
)

// FuzzNames: names from proxies, gateways and users are refused, or are formatted as they were
// parsed.
func FuzzNames(f *testing.F) {
	for _, s := range []string{
		"outbound|80|v1|reviews.default.svc.cluster.local", "inbound|9080||", "outbound_.80_.v1_.reviews.default.svc.cluster.local", "outbound_._._._", "outbound|99999||", "outbound|080||a",
		"outbound_.80_._.a_.b", "outbound|80|a|b|c", "sidecar~10.0.0.1~web-1.shop~shop.svc.cluster.local", "router~::1~a.b.c~", "~~~", "sidecar~10.0.0.1~x.~y",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if n, err := ParseClusterName(text); err == nil {
			if again, err := ParseClusterName(n.String()); err != nil || again != n {
				t.Errorf("%q is %+v, then %+v, %v", text, n, again, err)
			}
		}
		if n, err := ParseSNI(text); err == nil {
			if again, err := ParseSNI(n.DefaultSNI()); err != nil || again != n {
				t.Errorf("%q is %+v, then %+v, %v", text, n, again, err)
			}
		}
		if p, err := ParseNodeID(text); err == nil && (p.Type == "" || p.ID != text) {
			t.Errorf("%q is %+v", text, p)
		}
	})
}

// FuzzNodeMetadata: an invalid value in a proxy's metadata affects only its own field.
func FuzzNodeMetadata(f *testing.F) {
	for _, s := range []string{
		`{"LABELS":{"a":"b"},"INSTANCE_IPS":"10.0.0.1,fd00::1","CLUSTER_ID":"c"}`, `{"LABELS":"x","CLUSTER_ID":"c"}`, `null`, `[]`, `{"":null}`, `{"PROXY_CONFIG":{"concurrency":"x"}}`,
		`{"HTTP10":"1","CLUSTER_ID":1}`, `{"CLUSTER_ID":"a","cluster_id":"b"}`, `{"EXIT_ON_ZERO_ACTIVE_CONNECTIONS":"1e999"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		_, bad := ParseNodeMetadata(raw)
		fields := map[string]json.RawMessage{}
		if json.Unmarshal(raw, &fields) != nil {
			return
		}
		for _, name := range bad {
			if _, ok := fields[name]; !ok {
				t.Errorf("%q is reported as invalid, but is not in the metadata", name)
			}
			delete(fields, name)
		}
		rest, err := json.Marshal(fields)
		if err != nil {
			t.Fatal(err)
		}
		if _, bad := ParseNodeMetadata(rest); len(bad) > 0 && len(fields) > 0 {
			t.Errorf("without the invalid values, %q are reported", bad)
		}
	})
}

// FuzzMeshConfig: a MeshConfig that can be parsed has the defaults in all unset fields, and its
// networks are parsed with it.
func FuzzMeshConfig(f *testing.F) {
	for _, s := range []string{
		"trustDomain: a\ndefaultConfig: {concurrency: 2}", "pathNormalization: {normalization: NONE}", "x: &a [*a]", "defaultConfig: null", "extensionProviders: [{name: a}, null]",
		"networks: {n: {endpoints: [{fromCidr: 10.0.0.0/8}], gateways: [{address: 1.2.3.4, port: 1}]}}", "{", "- a", "enableAutoMtls: x", "outboundTrafficPolicy: {mode: 7}",
	} {
		f.Add([]byte(s), []byte("{}"))
	}
	f.Fuzz(func(t *testing.T, first, second []byte) {
		if m, err := ParseMeshConfig(first, second); err == nil && (m == nil || m.GetDefaultConfig() == nil && len(first)+len(second) == 0) {
			t.Errorf("nothing is read: %v", m)
		}
		if n, err := ParseMeshNetworks(first, second); err == nil && n == nil {
			t.Error("no networks are read")
		}
	})
}

// FuzzHostnames: matching is symmetric, covering implies matching, and the order of look-ups is an order.
func FuzzHostnames(f *testing.F) {
	for _, s := range [][2]string{{"*", "a.example.com"}, {"*.example.com", "a.example.com"}, {"*.com", "*.example.com"}, {"*a", "a"}, {"", "*"}, {"**", "*."}, {"a", "A"}} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		x, y := Hostname(a), Hostname(b)
		if x.Matches(y) != y.Matches(x) {
			t.Errorf("%q matches %q: %t, the other way round: %t", a, b, x.Matches(y), y.Matches(x))
		}
		if x.Covers(y) && !x.Matches(y) {
			t.Errorf("%q covers %q and does not match it", a, b)
		}
		if x.Covers(y) && y.Covers(x) && x != y && len(a) == len(b) {
			t.Errorf("%q and %q cover each other", a, b)
		}
		if there, back := x.MoreSpecific(y), y.MoreSpecific(x); (there < 0) != (back > 0) {
			t.Errorf("%q before %q: %d, the other way round %d", a, b, there, back)
		}
		if !x.Matches(x) || !x.Covers(x) || x.MoreSpecific(x) != 0 {
			t.Errorf("%q and itself", a)
		}
	})
}

// FuzzLocality: a locality is unchanged when formatted and parsed.
func FuzzLocality(f *testing.F) {
	for _, s := range []string{"", "a", "a/b", "a/b/c", "a/b/c/d", "//", "/b", "a//c", "a/b/c/"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		once := ParseLocality(text).String()
		if again := ParseLocality(once).String(); again != once {
			t.Errorf("%q is written as %q, and that as %q", text, once, again)
		}
	})
}
