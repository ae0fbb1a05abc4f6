package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// dumpWithoutEndpoints is what Envoy dumps without include_eds.
const dumpWithoutEndpoints = `{"configs": [
 {"@type": "type.googleapis.com/envoy.admin.v3.ListenersConfigDump", "dynamic_listeners": [
   {"active_state": {"listener": {"@type": "type.googleapis.com/envoy.config.listener.v3.Listener", "name": "virtualOutbound",
     "address": {"socket_address": {"address": "0.0.0.0", "port_value": 15001}},
     "filter_chains": [{"filters": [{"name": "tcp", "typed_config": {
       "@type": "type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy", "cluster": "BlackHoleCluster"}}]}]}}}]}]}`

// TestExplainDump explains calls from a file, without a control plane.
func TestExplainDump(t *testing.T) {
	file := filepath.Join(t.TempDir(), "dump.json")
	if err := os.WriteFile(file, []byte(dumpWithoutEndpoints), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"http://reviews:9080/"}, "note: no listener has an address of reviews: the placeholder 192.0.2.1 is used; --to sets another one"},
		{[]string{"http://reviews:9080/"}, "note: the dump has no endpoints: read /config_dump?include_eds"},
		{[]string{"web-1", "tcp://reviews:9080", "--to", "10.1.1.1:80"}, "outbound to 10.1.1.1:80: bytes"},
		{[]string{"tcp://reviews:9080", "-o", "json"}, `"direction": "outbound"`},
		{[]string{"http://reviews:9080/", "--both"}, "error: --both needs a control plane"},
		{[]string{"reviews"}, "error: no call is given"},
		{[]string{"http://reviews:9080/", "--token", "absent"}, "error: reading the token"},
		{[]string{"http://reviews:9080/", "-f", "absent.json"}, "error: --file: open absent.json"},
	} {
		var out strings.Builder
		command := New()
		command.SetOut(&out)
		command.SetArgs(append([]string{"explain", "-f", file}, c.args...))
		if err := command.Execute(); err != nil {
			out.WriteString("error: " + err.Error())
		}
		if !strings.Contains(out.String(), c.want) {
			t.Errorf("%q: no %q in\n%s", c.args, c.want, &out)
		}
	}
}
