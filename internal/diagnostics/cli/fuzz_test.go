package cli

import (
	"encoding/json"
	"testing"
)

// FuzzReadDump: pages of a proxy are parsed or refused without a panic, also pages that no proxy
// sends. Invalid JSON is refused.
func FuzzReadDump(f *testing.F) {
	for _, s := range []string{
		`{"configs":[{"dynamic_listeners":[{"name":"l","active_state":{"listener":{"name":"l","filter_chains":[{"filters":[{"name":"f"}]}]}}}]}]}`,
		`{"configs":[{"dynamicRouteConfigs":[{"routeConfig":{"name":"80","virtualHosts":[{"name":"v","domains":["*"]}]}}]}]}`,
		`{"configs":[{"dynamic_active_clusters":[{"cluster":{"name":"outbound|80||a"}}]}]}`, `{"configs":null}`, `[]`, `{`, `{"configs":[null,{"static_clusters":[null]}]}`,
		`{"configs":[{"staticEndpointConfigs":[{"endpointConfig":{"clusterName":"a","endpoints":[{"lbEndpoints":[{}]}]}}]}]}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		d, err := readDump(body)
		if (d == nil) != (err != nil) {
			t.Errorf("%v, %v", d, err)
		}
		if err == nil && !json.Valid(body) {
			t.Errorf("%q was read", body)
		}
	})
}
