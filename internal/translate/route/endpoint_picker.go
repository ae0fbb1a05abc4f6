package route

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	procv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/config"
)

// pickerFilter is the HTTP filter that asks endpoint pickers. Listeners have it disabled; the
// configuration of a route enables it.
const pickerFilter = "envoy.filters.http.ext_proc"

// pickerDestination returns the destination of the requests to an endpoint picker.
func pickerDestination(p *config.EndpointPicker) *networking.Destination {
	return &networking.Destination{Host: p.Host, Port: &networking.PortSelector{Number: p.Port}}
}

func (t *translation) pickerCluster(p *config.EndpointPicker) string {
	return t.cluster(pickerDestination(p)).String()
}

// refuses reports whether a backend has a picker that fails closed and that the proxies do not see.
// Requests to it are answered with an error by the route, so that this does not depend on how the
// filter treats a cluster that does not exist.
func (t *translation) refuses(b config.BackendFilters) bool {
	return b.Picker != nil && !b.Picker.FailOpen && !t.isVisible(pickerDestination(b.Picker))
}

// isVisible reports whether the proxies see a service with the host of a destination.
func (t *translation) isVisible(d *networking.Destination) bool { return !t.target(d).missing }

// pickerConfig returns the settings with which a picker at a cluster chooses the endpoints of
// requests. Pickers read the body, which names the model, and the response, whose statistics they
// use. Trailers are required in the mode FULL_DUPLEX_STREAMED.
func pickerConfig(p *config.EndpointPicker, cluster string) *procv3.ExtProcPerRoute {
	return &procv3.ExtProcPerRoute{Override: &procv3.ExtProcPerRoute_Overrides{Overrides: &procv3.ExtProcOverrides{
		FailureModeAllow: wrapperspb.Bool(p.FailOpen),
		GrpcService: &corev3.GrpcService{TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{
			EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{ClusterName: cluster, Authority: p.Host},
		}},
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
