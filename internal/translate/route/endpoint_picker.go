package route

import (
	"slices"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	procv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	previoushostsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/retry/host/previous_hosts/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/resource"
)

// pickerFilter is the HTTP filter that asks endpoint pickers. Listeners have it disabled; the
// configuration of a route enables it.
const pickerFilter = "envoy.filters.http.ext_proc"

// pickerDestination returns the service and port that an endpoint picker is called at.
func pickerDestination(p *config.EndpointPicker) *networking.Destination {
	return &networking.Destination{Host: p.Host, Port: &networking.PortSelector{Number: p.Port}}
}

// pickerCluster returns the name of the cluster of an endpoint picker.
func (t *translation) pickerCluster(p *config.EndpointPicker) string {
	return t.cluster(pickerDestination(p)).String()
}

// refuses reports whether a backend has a picker that fails closed and whose service the proxies do
// not see. The route then answers requests to it with an error, so that this does not depend on how
// the filter treats a cluster that does not exist.
func (t *translation) refuses(b config.BackendFilters) bool {
	return b.Picker != nil && !b.Picker.FailOpen && !t.isVisible(pickerDestination(b.Picker))
}

// isVisible reports whether the proxies see a service with the host of the destination d.
func (t *translation) isVisible(d *networking.Destination) bool { return !t.target(d).missing }

// pickerRetries is the number of further attempts to connect to an endpoint of a picker. Envoy
// keeps the body until it is connected, up to 64 KiB; a longer one is not retried.
const pickerRetries = 3

// pickerBackOff is the base interval between attempts to connect to a picker.
const pickerBackOff = 10 * time.Millisecond

// pickerService returns how Envoy calls a picker at host through cluster. A connection or stream
// that an endpoint refuses is retried at another one, up to pickerRetries times.
func pickerService(host, cluster string) *corev3.GrpcService {
	return &corev3.GrpcService{
		TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{
			EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{ClusterName: cluster, Authority: host},
		},
		RetryPolicy: &corev3.RetryPolicy{
			NumRetries: wrapperspb.UInt32(pickerRetries), RetryOn: "connect-failure,refused-stream",
			RetryBackOff: &corev3.BackoffStrategy{BaseInterval: durationpb.New(pickerBackOff)},
			RetryHostPredicate: []*corev3.RetryPolicy_RetryHostPredicate{{
				Name: previousHosts,
				ConfigType: &corev3.RetryPolicy_RetryHostPredicate_TypedConfig{
					TypedConfig: resource.Pack(new(previoushostsv3.PreviousHostsPredicate)),
				},
			}},
			HostSelectionRetryMaxAttempts: 5,
		},
	}
}

// limitPickers makes the timeout of the rule also end requests whose endpoint picker does not
// answer, by an idle timeout. It does nothing without a timeout or if no backend has a picker. The
// timeout itself begins after the picker's answer, and message_timeout does not apply to the body
// mode FULL_DUPLEX_STREAMED. Envoy sends the 504 of the first idle timeout to the picker too, so
// that clients receive it only after the second. With max_stream_duration they would not receive
// it.
func limitPickers(action *routev3.RouteAction, backends []config.BackendFilters) {
	picked := slices.ContainsFunc(backends, func(b config.BackendFilters) bool { return b.Picker != nil })
	if d := action.GetTimeout(); picked && d.AsDuration() > 0 {
		action.IdleTimeout = d
	}
}

// pickerConfig returns the settings of the ext_proc filter with which the picker at cluster chooses
// the endpoints of requests. If the picker fails, requests fail unless p.FailOpen is set. Pickers
// read the body, which names the model, and the response, whose statistics they use. Trailers are
// required in the mode FULL_DUPLEX_STREAMED.
func pickerConfig(p *config.EndpointPicker, cluster string) *procv3.ExtProcPerRoute {
	return &procv3.ExtProcPerRoute{Override: &procv3.ExtProcPerRoute_Overrides{Overrides: &procv3.ExtProcOverrides{
		FailureModeAllow: wrapperspb.Bool(p.FailOpen),
		GrpcService:      pickerService(p.Host, cluster),
		ProcessingMode: &procv3.ProcessingMode{
			RequestHeaderMode:   procv3.ProcessingMode_SEND,
			RequestBodyMode:     procv3.ProcessingMode_FULL_DUPLEX_STREAMED,
			RequestTrailerMode:  procv3.ProcessingMode_SEND,
			ResponseHeaderMode:  procv3.ProcessingMode_SEND,
			ResponseBodyMode:    procv3.ProcessingMode_FULL_DUPLEX_STREAMED,
			ResponseTrailerMode: procv3.ProcessingMode_SEND,
		},
	}}}
}
