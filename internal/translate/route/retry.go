package route

import (
	"slices"
	"strconv"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	previoushostsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/retry/host/previous_hosts/v3"
	previousprioritiesv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/retry/priority/previous_priorities/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
)

const (
	defaultRetryOn   = "connect-failure,refused-stream,unavailable,cancelled,retriable-status-codes"
	statusCodes      = "retriable-status-codes"
	connectFailure   = "connect-failure"
	resetCondition   = "reset"
	retriableHeaders = "retriable-headers"
	defaultAttempts  = 2
	// hostAttempts is how many times Envoy tries to select a host that the request has not been
	// sent to, before it reuses one.
	hostAttempts = 5
	// priorityFrequency is the number of attempts after which Envoy recomputes the load of
	// priorities.
	priorityFrequency = 2
	// previousHosts is for readers: Envoy identifies the predicate by the type of its configuration,
	// and each route contains it.
	previousHosts = "previous_hosts"
)

// retryPolicy translates HTTPRetry, and adds retries of lost requests (retryLost). nil selects
// Istio's default. It returns nil, no retries, if attempts is 0 or negative. sticky is set if a
// hash selects the endpoint: retries then use the same endpoint, unless the policy says otherwise.
// Otherwise they avoid the endpoints that were tried.
func retryPolicy(in *networking.HTTPRetry, sticky bool) *routev3.RetryPolicy {
	out := &routev3.RetryPolicy{
		RetryOn:                       defaultRetryOn,
		NumRetries:                    wrapperspb.UInt32(defaultAttempts),
		HostSelectionRetryMaxAttempts: hostAttempts,
	}
	elsewhere := !sticky
	if in != nil {
		if in.GetAttempts() <= 0 {
			return nil
		}
		out.NumRetries = wrapperspb.UInt32(uint32(in.GetAttempts()))
		if in.GetRetryOn() != "" {
			out.RetryOn, out.RetriableStatusCodes = parseRetryOn(in.GetRetryOn())
		}
		out.PerTryTimeout = in.GetPerTryTimeout()
		if in.GetRetryRemoteLocalities().GetValue() {
			out.RetryPriority = &routev3.RetryPolicy_RetryPriority{
				Name: "envoy.retry_priorities.previous_priorities",
				ConfigType: &routev3.RetryPolicy_RetryPriority_TypedConfig{
					TypedConfig: resource.Pack(&previousprioritiesv3.PreviousPrioritiesConfig{
						UpdateFrequency: priorityFrequency,
					}),
				},
			}
		}
		if in.GetRetryIgnorePreviousHosts() != nil {
			elsewhere = in.GetRetryIgnorePreviousHosts().GetValue()
		}
		if in.GetBackoff().AsDuration() > 0 {
			out.RetryBackOff = &routev3.RetryPolicy_RetryBackOff{BaseInterval: in.GetBackoff()}
		}
	}
	retryLost(out, in.GetRetryOn() == "")
	if elsewhere {
		out.RetryHostPredicate = []*routev3.RetryPolicy_RetryHostPredicate{{
			Name: previousHosts,
			ConfigType: &routev3.RetryPolicy_RetryHostPredicate_TypedConfig{
				TypedConfig: resource.Pack(new(previoushostsv3.PreviousHostsPredicate)),
			},
		}}
	}
	return out
}

// retryLost makes p also retry requests that were lost between the server's proxy and its
// application, which that proxy reports in the response header mesh.LostRequestHeader. If byDefault
// is set or p retries on reset, every report is retried. If p retries on connect-failure but not on
// reset, only the report mesh.RequestNotSent is. Otherwise p is not modified. It replaces
// p.RetriableHeaders and adds the condition retriable-headers.
func retryLost(p *routev3.RetryPolicy, byDefault bool) {
	on := strings.Split(p.GetRetryOn(), ",")
	var which *routev3.HeaderMatcher
	switch {
	case byDefault || slices.Contains(on, resetCondition):
		which = &routev3.HeaderMatcher{HeaderMatchSpecifier: &routev3.HeaderMatcher_PresentMatch{PresentMatch: true}}
	case slices.Contains(on, connectFailure):
		which = &routev3.HeaderMatcher{HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{
			StringMatch: &matcherv3.StringMatcher{
				MatchPattern: &matcherv3.StringMatcher_Exact{Exact: mesh.RequestNotSent},
			},
		}}
	default:
		return
	}
	which.Name = mesh.LostRequestHeader
	p.RetriableHeaders = []*routev3.HeaderMatcher{which}
	if !slices.Contains(on, retriableHeaders) {
		p.RetryOn += "," + retriableHeaders
	}
}

// parseRetryOn separates the status codes from a list of retry conditions (HTTPRetry.retryOn), as
// Envoy requires. If there are codes, it adds the condition retriable-status-codes. Spaces around
// elements are trimmed, and empty elements are dropped.
func parseRetryOn(list string) (conditions string, codes []uint32) {
	var kept []string
	for one := range strings.SplitSeq(list, ",") {
		one = strings.TrimSpace(one)
		if code, err := strconv.ParseUint(one, 10, 32); err == nil {
			codes = append(codes, uint32(code))
		} else if one != "" {
			kept = append(kept, one)
		}
	}
	if len(codes) > 0 && !slices.Contains(kept, statusCodes) {
		kept = append(kept, statusCodes)
	}
	return strings.Join(kept, ","), codes
}
