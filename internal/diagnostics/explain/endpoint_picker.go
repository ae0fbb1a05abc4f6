package explain

import (
	procv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
)

// pickerFilter is the filter that asks the endpoint picker of an InferencePool.
const pickerFilter = "envoy.filters.http.ext_proc"

// addPicker adds a step if the weighted cluster of c, or else the route, has an endpoint picker.
// The picker chooses the endpoint, so the shares of the pool's endpoints apply only to requests for
// which it makes no choice. It does nothing otherwise.
func (x *exchange) addPicker(c choice) {
	packed := c.weight.GetTypedPerFilterConfig()[pickerFilter]
	if packed == nil {
		packed = x.perRoute(pickerFilter)
	}
	config, ok := unpackAny(packed, new(procv3.ExtProcPerRoute))
	if !ok {
		return
	}
	picker := config.GetOverrides().GetGrpcService().GetEnvoyGrpc().GetClusterName()
	failure := "the request is answered with an error"
	if config.GetOverrides().GetFailureModeAllow().GetValue() {
		failure = "the request is balanced over the pool"
	}
	x.addNote(StageFilter, pickerFilter, "the endpoint picker at %s chooses the endpoint in %s; if it fails, %s",
		picker, c.cluster, failure)
}
