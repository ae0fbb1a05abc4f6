package explain

import (
	"net/http"
	"slices"
	"time"

	faultcommonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/common/fault/v3"
	faultv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/fault/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/types/known/anypb"
)

// perRoute returns the most specific configuration of a filter: of the route, the virtual host or
// the route configuration. It returns nil if there is none.
func (x *exchange) perRoute(filter string) *anypb.Any {
	for _, configs := range []map[string]*anypb.Any{
		x.routed.route.GetTypedPerFilterConfig(), x.routed.host.GetTypedPerFilterConfig(),
		x.routed.config.GetTypedPerFilterConfig(),
	} {
		if a := configs[filter]; a != nil {
			return a
		}
	}
	return nil
}

// evaluateFault evaluates the fault filter, by its per-route configuration or else its own, and
// adds steps. answered are the endings of aborted requests; rest are the branches of open that
// continue, split by delay. If the configuration is unsupported, or the fault is for other
// requests, nothing is answered and rest is open.
func (x *exchange) evaluateFault(f *hcmv3.HttpFilter, open []branch) (answered []Ending, rest []branch) {
	packed := x.perRoute(f.GetName())
	if packed == nil {
		packed = f.GetTypedConfig()
	}
	c, ok := unpackAny(packed, new(faultv3.HTTPFault))
	if !ok {
		x.addNote(StageUnsupported, f.GetName(), "its configuration %s is not supported", packed.GetTypeUrl())
		return nil, open
	}
	if !x.faultApplies(f.GetName(), c) {
		return nil, open
	}
	if share, delay := faultDelay(c.GetDelay()); share > 0 {
		x.addStep(
			Step{
				Stage:    StageFilter,
				Resource: f.GetName(),
				Decided:  formatPercent(share) + " of requests are delayed by " + delay.String(),
				By:       x.faultObjects(),
			},
		)
		open = splitDelayed(open, share, delay)
	}
	share := fractionOf(c.GetAbort().GetPercentage())
	if c.GetAbort() == nil || share == 0 {
		return nil, open
	}
	answer := x.abortEnding(c.GetAbort())
	x.addStep(
		Step{
			Stage:    StageFilter,
			Resource: f.GetName(),
			Decided:  formatPercent(share) + " of requests are answered " + answer.describe(),
			By:       x.faultObjects(),
		},
	)
	for _, b := range open {
		one := answer
		one.Delay = b.delay
		if b.delay > 0 {
			one.Flags = flagDelayInjected + "," + one.Flags
		}
		answered = append(answered, scaleShares([]Ending{one}, b.share*share)...)
		if share < 1 {
			rest = append(rest, branch{b.share * (1 - share), b.delay})
		}
	}
	return answered, rest
}

// faultApplies reports whether a fault applies to this request: all its headers match, and the
// upstream cluster that it may name is the route's single one. An unsupported header matcher makes
// it false. It adds a step for unsupported fields, which it otherwise ignores.
func (x *exchange) faultApplies(name string, c *faultv3.HTTPFault) bool {
	for _, h := range c.GetHeaders() {
		ok, err := headerMatches(h, x.request)
		if err != nil {
			x.addNote(StageUnsupported, name, "%v", err)
		}
		if err != nil || !ok {
			return false
		}
	}
	if c.GetUpstreamCluster() != "" && c.GetUpstreamCluster() != x.routed.route.GetRoute().GetCluster() {
		return false
	}
	if len(c.GetDownstreamNodes()) > 0 || c.GetResponseRateLimit() != nil || c.GetDelay().GetHeaderDelay() != nil ||
		c.GetAbort().GetHeaderAbort() != nil {
		x.addNote(
			StageUnsupported,
			name,
			"faults by downstream node, by header, and response rate limits are not supported",
		)
	}
	return true
}

// faultObjects returns the objects of the route, with the field of the fault if there is only one.
// Without a rule in that object, no field is added.
func (x *exchange) faultObjects() []Object {
	list := x.routeObjects(x.routed.route)
	if len(list) == 1 && list[0].Rule != "" { // with several objects, the one with the fault is unknown
		list[0].Rule = ruleOnly(list[0].Rule) + ".fault"
	}
	return list
}

// faultDelay returns the share of delayed requests and their delay. Both are 0 if d has no fixed
// delay.
func faultDelay(d *faultcommonv3.FaultDelay) (share float64, delay time.Duration) {
	if d.GetFixedDelay() == nil {
		return 0, 0
	}
	return fractionOf(d.GetPercentage()), d.GetFixedDelay().AsDuration()
}

// splitDelayed splits each branch into a delayed and an undelayed part, and removes parts with
// share 0.
func splitDelayed(open []branch, share float64, delay time.Duration) []branch {
	var out []branch
	for _, b := range open {
		out = append(out, branch{b.share * share, b.delay + delay})
		if share < 1 {
			out = append(out, branch{b.share * (1 - share), b.delay})
		}
	}
	return slices.DeleteFunc(out, func(b branch) bool { return b.share == 0 })
}

// faultBody is the response body of an aborted request.
const faultBody = "fault filter abort"

// abortEnding returns the proxy's response to an aborted request: the HTTP or gRPC status of a, or
// else 503. A gRPC status is sent with HTTP status 200; to a request without gRPC, only the latter.
func (x *exchange) abortEnding(a *faultv3.FaultAbort) Ending {
	switch e := a.GetErrorType().(type) {
	case *faultv3.FaultAbort_HttpStatus:
		return x.localReply(int(e.HttpStatus), faultBody, "fault").withFlags(flagFaultInjected)
	case *faultv3.FaultAbort_GrpcStatus:
		// status 200 applies to clients without gRPC, too
		answer := x.localReply(http.StatusOK, faultBody, "fault").withFlags(flagFaultInjected)
		return answer.withGRPC(x.request.isGRPC(), e.GrpcStatus, faultBody)
	default:
		return x.localReply(http.StatusServiceUnavailable, faultBody, "fault").withFlags(flagFaultInjected)
	}
}
