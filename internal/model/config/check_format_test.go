package config_test

import (
	"fmt"
	"strings"
	"testing"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	filelogv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/file/v3"
	celv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/filters/cel/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	reqwithoutqueryv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/formatter/req_without_query/v3"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/test/support/envoy"
)

func goodFormats() []string {
	return append(
		config.BareFormats(),
		"",
		"plain",
		"100%%",
		"%REQ(X?Y):10% %RESP(a)%",
		"%START_TIME(%Y-%m-%dT%H:%M:%S%z)%",
		"%REQ_WITHOUT_QUERY(X-ENVOY-ORIGINAL-PATH?:PATH)%",
		"%DYNAMIC_METADATA(a:b):5%",
		"%FILTER_STATE(a:PLAIN)%",
		"%FILTER_STATE(a:FIELD:b)%",
		"%PATH(NQ)% %PATH%",
		"%METADATA(ROUTE:a:b)%",
		"%CEL(request.path)%",
		"%CEL(request.headers['a'].matches('b+') && true)%",
		`%CEL(re.extract(request.path, '^/(.*)$', '\\1'))%`,
		"%COMMON_DURATION(US_RX_BEG:US_RX_END:ms)%",
		"%REQ(a)%%%%REQ(b)%",
		"%BYTES_SENT()% %REQ(?:PATH)% %REQ(a?)% %QUERY_PARAMS:10% %PATH:10% %PATH(NQ:ORIG_OR_PATH)%",
		"%DYNAMIC_METADATA(a?b?c)% %QUERY_PARAM(a?b?c)% %FILTER_STATE(a:)% %FILTER_STATE(a:FIELD:b:c)%",
		"%GRPC_STATUS(NUMBER)% %REQUESTED_SERVER_NAME(SNI_FIRST:ORIG_OR_HOST)% %REQUESTED_SERVER_NAME(:HOST)%",
		"%START_TIME(%E3S%Ez)% %REQ(a):999999999999999999%",
	)
}

func TestFormatFault(t *testing.T) {
	for _, f := range goodFormats() {
		if fault := config.FormatFault(f); fault != "" {
			t.Errorf("%q: %s", f, fault)
		}
	}
	for f, want := range map[string]string{
		"%FOO%": "unknown command FOO", "50%": "begins no command", "%RESPONSE_CODE": "begins no command", "%response_code%": "begins no command",
		"%REQ%": "needs parameters", "%REQ()%": "needs parameters", "%REQ(a?b?c)%": "more than one alternative",
		"%RESPONSE_CODE(x)%": "no parameters", "%PROTOCOL:3%": "no length", "%START_TIME:3%": "no length", "%REQ(a):x%": "begins no command",
		"%METADATA(FOO:a)%": "is not one of", "%FILTER_STATE(a:b)%": "KEY:TYPED", "%FILTER_STATE(a:FIELD)%": "KEY:FIELD:NAME",
		"%COMMON_DURATION(a)%": "START:END", "%PATH(X)%": "WQ", "%CEL(foo(1))%": "undeclared reference", "%CEL(request.)%": "not an expression",
		"%REQ(a b)%": "is not a header name", "%RESP(x?a:b)%": "is not a header name", "%START_TIME(%Y%n)%": "line end", "%EMIT_TIME(%_3En)%": "line end",
		"%GRPC_STATUS(TEXT)%": "SNAKE_STRING", "%PATH(NQ:X)%": "ORIG_OR_PATH", "%PATH(NQ:ORIG:a)%": "more than 2 options",
		"%REQUESTED_SERVER_NAME(HOST)%": "SNI_FIRST", "%REQUESTED_SERVER_NAME(SNI_ONLY:X)%": "ORIG_OR_HOST", "%FILTER_STATE(a:PLAIN:b)%": "KEY:FIELD:NAME",
		"%COMMON_DURATION(a:b:s)%": "ms, us or ns", "%UPSTREAM_METADATA(a):5%": "no length", "%CLUSTER_METADATA(a):5%": "no length",
		"%REQ(a):9999999999999999999%": "begins no command",
	} {
		if fault := config.FormatFault(f); !strings.Contains(fault, want) {
			t.Errorf("%q: found %q, want %q", f, fault, want)
		}
	}
	if fault := config.FormatsFault(
		map[string]any{"a": "%RESPONSE_CODE%", "b": []any{"%REQ(a)%", map[string]any{"c": 1, "d": nil}}},
	); fault != "" {
		t.Error(fault)
	}
	if fault := config.FormatsFault(
		map[string]any{"a": []any{"x", map[string]any{"b": "5%"}}},
	); !strings.Contains(
		fault,
		"begins no command",
	) {
		t.Errorf("found %q", fault)
	}
}

// TestEnvoyAcceptsFormatsWithoutFault loads all formats and conditions without a Problem into
// Envoy.
func TestEnvoyAcceptsFormatsWithoutFault(t *testing.T) {
	var c envoy.Config
	for _, f := range goodFormats() {
		c.Listeners = append(c.Listeners, logging(t, len(c.Listeners), f, ""))
	}
	for _, condition := range goodConditions() {
		c.Listeners = append(c.Listeners, logging(t, len(c.Listeners), "", condition))
	}
	c.Clusters = []*clusterv3.Cluster{{Name: "any"}}
	envoy.Validate(t, c)
}

func goodConditions() []string {
	return []string{
		"response.code >= 400",
		"connection.mtls && request.url_path.contains('v1beta3')",
		`!has(request.useragent) || !(request.useragent.startsWith("Amazon-Route53-Health-Check-Service"))`,
		"request.headers['x'] == 'a'",
		"destination.port == 80",
		"xds.node.metadata['NAME'] != ''",
		`re.extract(request.path, '^/(.*)$', '\\1') == 'x'`,
		"request.time < timestamp('2030-01-01T00:00:00Z')",
		"true",
		"request.path in ['/a', '/b']",
		"size(request.path) > 3 && request.path.matches('a+')",
		"request.path + 'a' == 'b'",
		"int('1') + 2 == 3",
		"duration('1s') < request.duration",
		"type(request.path) == string",
		"bool('true') ? true : false",
		"upstream_filter_state['a'] == b'x'",
		"{'a': 1}['a'] == 1",
		"double(1) > 0.5",
		"uint(1) == 1u",
		"bytes('a') == b'a'",
		"dyn(1) == 1",
		"request.time.getFullYear() > 2000",
		"5 % 2 == 1",
		"request == null",
	}
}

func TestConditionsWithoutFault(t *testing.T) {
	for _, c := range goodConditions() {
		if fault := config.ConditionFault(c); fault != "" {
			t.Errorf("%s: %s", c, fault)
		}
	}
}

func packed(t *testing.T, m proto.Message) *anypb.Any {
	t.Helper()
	a, err := anypb.New(m)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// logging is a listener that logs in a format, under a condition.
func logging(t *testing.T, n int, format, condition string) *listenerv3.Listener {
	t.Helper()
	log := &accesslogv3.AccessLog{
		Name: "log",
		ConfigType: &accesslogv3.AccessLog_TypedConfig{TypedConfig: packed(t, &filelogv3.FileAccessLog{
			Path: "/dev/null",
			AccessLogFormat: &filelogv3.FileAccessLog_LogFormat{LogFormat: &corev3.SubstitutionFormatString{
				Formatters: []*corev3.TypedExtensionConfig{
					{Name: "req", TypedConfig: packed(t, new(reqwithoutqueryv3.ReqWithoutQuery))},
				},
				Format: &corev3.SubstitutionFormatString_TextFormatSource{TextFormatSource: &corev3.DataSource{
					Specifier: &corev3.DataSource_InlineString{InlineString: format + "\n"},
				}},
			}},
		})},
	}
	if condition != "" {
		log.Filter = &accesslogv3.AccessLogFilter{
			FilterSpecifier: &accesslogv3.AccessLogFilter_ExtensionFilter{ExtensionFilter: &accesslogv3.ExtensionFilter{
				Name: "cel",
				ConfigType: &accesslogv3.ExtensionFilter_TypedConfig{
					TypedConfig: packed(t, &celv3.ExpressionFilter{Expression: condition}),
				},
			}},
		}
	}
	return &listenerv3.Listener{
		Name: fmt.Sprint(n),
		Address: &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
			Address:       fmt.Sprintf("127.1.%d.%d", n>>8, n&255),
			PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: 80},
		}}},
		FilterChains: []*listenerv3.FilterChain{{Filters: []*listenerv3.Filter{{
			Name: "tcp", ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: packed(t, &tcpv3.TcpProxy{
				StatPrefix:       "tcp",
				AccessLog:        []*accesslogv3.AccessLog{log},
				ClusterSpecifier: &tcpv3.TcpProxy_Cluster{Cluster: "any"},
			})},
		}}}},
	}
}
