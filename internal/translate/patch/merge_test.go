package patch

import (
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"sigs.k8s.io/yaml"
)

func TestMerge(t *testing.T) {
	for _, test := range []struct {
		name, dst, src string
		replaceLists   bool
		want           string
	}{
		{"scalars", "{name: a, alt_stat_name: b}", "{alt_stat_name: c}", false, "{name: a, alt_stat_name: c}"},
		{"messages, field by field", "{common_lb_config: {ignore_new_hosts_until_first_hc: true}}", "{common_lb_config: {close_connections_on_host_set_change: true}}", false,
			"{common_lb_config: {ignore_new_hosts_until_first_hc: true, close_connections_on_host_set_change: true}}"},
		{
			"lists, one after the other", "{health_checks: [{timeout: 1s}]}",
			"{health_checks: [{timeout: 2s}]}", false,
			"{health_checks: [{timeout: 1s}, {timeout: 2s}]}",
		},
		{
			"lists in place of lists", "{health_checks: [{timeout: 1s}], name: a}",
			"{health_checks: [{timeout: 2s}]}", true, "{health_checks: [{timeout: 2s}], name: a}",
		},
		{
			"lists that are not there", "{health_checks: [{timeout: 1s}]}", "{name: a}", true,
			"{health_checks: [{timeout: 1s}], name: a}",
		},
		{"map entries", "{typed_extension_protocol_options: {a: {\"@type\": type.googleapis.com/google.protobuf.StringValue, value: x}, b: {\"@type\": type.googleapis.com/google.protobuf.StringValue, value: x}}}",
			"{typed_extension_protocol_options: {a: {\"@type\": type.googleapis.com/google.protobuf.StringValue, value: z}}}", false,
			"{typed_extension_protocol_options: {a: {\"@type\": type.googleapis.com/google.protobuf.StringValue, value: z}, b: {\"@type\": type.googleapis.com/google.protobuf.StringValue, value: x}}}"},
		{"a duration is one value", "{connect_timeout: 1.5s}", "{connect_timeout: 2s}", false, "{connect_timeout: 2s}"},
		{"so are zeros that are wrapped", "{per_connection_buffer_limit_bytes: 5, wait_for_warm_on_init: true}", "{per_connection_buffer_limit_bytes: 0, wait_for_warm_on_init: false}", false,
			"{per_connection_buffer_limit_bytes: 0, wait_for_warm_on_init: false}"},
		{"one of several", "{type: EDS}", "{cluster_type: {name: a}}", false, "{cluster_type: {name: a}}"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dst, src, want := clusterOf(t, test.dst), clusterOf(t, test.src), clusterOf(t, test.want)
			before := proto.CloneOf(src)
			merge(dst, src, test.replaceLists)
			if diff := cmp.Diff(want, dst, protocmp.Transform()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			for _, h := range dst.GetHealthChecks() {
				h.Timeout = nil // what dst has is its own
			}
			if !proto.Equal(before, src) {
				t.Error("the source was changed")
			}
		})
	}
}

func clusterOf(t *testing.T, text string) *clusterv3.Cluster {
	t.Helper()
	js, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	c := new(clusterv3.Cluster)
	if err := protojson.Unmarshal(js, c); err != nil {
		t.Fatal(err)
	}
	return c
}
