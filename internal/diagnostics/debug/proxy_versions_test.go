package debug

import (
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/test/support/fixture"
)

// TestProxyVersionWithoutProxies: a patch for a version that no connected proxy has is a Problem on
// its proxyVersion. It is resolved when such a proxy connects. Without proxies none is reported.
func TestProxyVersionWithoutProxies(t *testing.T) {
	m := fixture.New(t, []byte(`
kind: EnvoyFilter
metadata: {name: old, namespace: shop}
spec:
  configPatches:
  - {applyTo: CLUSTER, match: {context: ANY}, patch: {operation: MERGE, value: {connect_timeout: 1s}}}
  - {applyTo: CLUSTER, match: {context: ANY, proxy: {proxyVersion: '^1\.9\.'}}, patch: {operation: MERGE, value: {connect_timeout: 1s}}}
  - {applyTo: CLUSTER, match: {context: ANY, proxy: {proxyVersion: '^1\.31\.'}}, patch: {operation: MERGE, value: {connect_timeout: 1s}}}
`), nil)
	const field = "spec.configPatches[1].match.proxy.proxyVersion"
	at := func(versions ...string) []string {
		f := twoProxies(t)
		f.list = f.list[:len(versions)]
		for i, v := range versions {
			proxy := *f.list[i].Proxy
			proxy.Metadata.IstioVersion = v
			f.list[i].Proxy = &proxy
		}
		var fields []string
		for _, p := range pagesOf(t, m, f).FoundInViews() {
			if strings.HasSuffix(p.Field, "proxyVersion") {
				fields = append(fields, p.Field)
			}
		}
		return fields
	}
	if got := at("1.31.0"); len(got) != 1 || got[0] != field {
		t.Errorf("with 1.31.0: %v, want %s", got, field)
	}
	if got := at("1.31.0", "1.9.4"); got != nil {
		t.Errorf("with 1.31.0 and 1.9.4: %v", got)
	}
	if got := at(); got != nil {
		t.Errorf("without proxies: %v", got)
	}
}
