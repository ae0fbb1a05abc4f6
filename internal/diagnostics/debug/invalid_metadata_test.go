package debug

import (
	"fmt"
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/internal/xds/push"
	"github.com/meshpilot/meshpilot/test/support/fixture"
)

// TestInvalidMetadata checks that a value that is not used is one Problem for all proxies of a
// namespace that have it, and that the number of Problems is limited.
func TestInvalidMetadata(t *testing.T) {
	f := twoProxies(t)
	template := *f.list[0].Proxy
	add := func(name, namespace, key, value string) {
		p := template
		p.Name, p.Namespace = name, namespace
		p.Metadata.Strings = map[string]string{key: value, "OTHER": "?"}
		c := f.list[0]
		c.Proxy = &p
		f.list = append(f.list, c)
	}
	found := func() (list []string) {
		for _, p := range pagesOf(t, fixture.New(t, nil, nil), f).Problems() {
			if strings.HasPrefix(p.Field, "metadata.") {
				list = append(list, p.String())
			}
		}
		return list
	}
	add("b", "shop", "IDLE_TIMEOUT", "5 minutes")
	add("a", "shop", "IDLE_TIMEOUT", "5 minutes")
	add("c", "bank", "DNS_CAPTURE", strings.Repeat("y", 100))
	add("d", "bank", "DNS_CAPTURE", "true")
	const fix = "in its environment or in proxyMetadata"
	want := []string{
		`proxy a.shop: metadata.IDLE_TIMEOUT: "5 minutes" of this proxy and of other proxies of the namespace is not a duration that is ` +
			`not negative, such as 300s, so the defaults of Envoy apply; correct ISTIO_META_IDLE_TIMEOUT ` + fix,
		`proxy c.bank: metadata.DNS_CAPTURE: "` + strings.Repeat("y", 40) + `" of this proxy is not true or false, so false applies; ` +
			`correct ISTIO_META_DNS_CAPTURE ` + fix,
	}
	got := found()
	for _, text := range want {
		if !strings.Contains(strings.Join(got, "\n"), text) {
			t.Errorf("no Problem %s", text)
		}
	}
	if len(got) != len(want) {
		t.Errorf("got %d Problems, want %d:\n%s", len(got), len(want), strings.Join(got, "\n"))
	}
	for i := range 2 * maxInvalidMetadata {
		add("e", "shop", "HTTP_PROXY_PORT", fmt.Sprint(70000+i))
	}
	if got := found(); len(got) != maxInvalidMetadata {
		t.Errorf("%d Problems of many values, want %d", len(got), maxInvalidMetadata)
	}
}

// BenchmarkInvalidMetadata searches the metadata of 10,000 proxies without invalid values, as each
// request for all Problems does.
func BenchmarkInvalidMetadata(b *testing.B) {
	p := *twoProxies(b).list[0].Proxy
	p.Metadata.Strings = map[string]string{"IDLE_TIMEOUT": "5s", "DNS_CAPTURE": "true", "CLUSTER_ID": "Kubernetes"}
	list := make([]push.StreamState, 10_000)
	for i := range list {
		list[i] = push.StreamState{Proxy: &p}
	}
	for b.Loop() {
		if found := invalidMetadata(list); len(found) != 0 {
			b.Fatal(found)
		}
	}
}
