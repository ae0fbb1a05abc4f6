package listener

import (
	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"

	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// Envoy's response flags of requests that an upstream did not answer.
const (
	connectionFailure     = "UF"
	connectionTermination = "UC"
)

// safeMethods are the methods of RFC 9110, 9.2.1, except TRACE, which Envoy does not support.
const safeMethods = "GET|HEAD|OPTIONS"

// lostRequests returns a config that sets mesh.LostRequestHeader in responses that a proxy sends in
// place of its application. It is mesh.RequestNotSent if the proxy could not connect. It is
// mesh.RequestNotAnswered if the connection ended without an answer to a request with a safe
// method.
func lostRequests() *hcmv3.LocalReplyConfig {
	safe := &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_HeaderFilter{
		HeaderFilter: &accesslogv3.HeaderFilter{Header: &routev3.HeaderMatcher{
			Name: ":method",
			HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{StringMatch: &matcherv3.StringMatcher{
				MatchPattern: &matcherv3.StringMatcher_SafeRegex{
					SafeRegex: &matcherv3.RegexMatcher{Regex: safeMethods},
				},
			}},
		}},
	}}
	both := &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_AndFilter{
		AndFilter: &accesslogv3.AndFilter{
			Filters: []*accesslogv3.AccessLogFilter{responseFlag(connectionTermination), safe},
		},
	}}
	return &hcmv3.LocalReplyConfig{Mappers: []*hcmv3.ResponseMapper{
		responseMark(responseFlag(connectionFailure), mesh.RequestNotSent),
		responseMark(both, mesh.RequestNotAnswered),
	}}
}

// responseFlag returns a filter of responses with an Envoy response flag.
func responseFlag(flag string) *accesslogv3.AccessLogFilter {
	return &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_ResponseFlagFilter{
		ResponseFlagFilter: &accesslogv3.ResponseFlagFilter{Flags: []string{flag}},
	}}
}

// responseMark returns a mapper that sets mesh.LostRequestHeader to the value how in the responses
// that the filter which selects. It replaces an existing value.
func responseMark(which *accesslogv3.AccessLogFilter, how string) *hcmv3.ResponseMapper {
	return &hcmv3.ResponseMapper{Filter: which, HeadersToAdd: []*corev3.HeaderValueOption{{
		Header:       &corev3.HeaderValue{Key: mesh.LostRequestHeader, Value: how},
		AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
	}}}
}

// unsentRetries returns a policy of at most two retries for requests that were not sent, because
// the application closed an idle connection meanwhile. It does not apply to gRPC (content-type
// application/grpc…). Envoy keeps the body of every request that it may retry, and a stream may
// stay open for hours.
func unsentRetries() *routev3.RetryPolicy {
	grpc := &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Prefix{Prefix: "application/grpc"}}
	return &routev3.RetryPolicy{
		RetryOn: "reset-before-request", NumRetries: wrapperspb.UInt32(2),
		RetriableRequestHeaders: []*routev3.HeaderMatcher{{
			Name:                      "content-type",
			HeaderMatchSpecifier:      &routev3.HeaderMatcher_StringMatch{StringMatch: grpc},
			InvertMatch:               true,
			TreatMissingHeaderAsEmpty: true,
		}},
	}
}
