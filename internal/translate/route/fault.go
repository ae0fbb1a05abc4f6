package route

import (
	"math"

	networking "istio.io/api/networking/v1alpha3"

	commonfaultv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/common/fault/v3"
	faultv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/fault/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc/codes"
)

// faultFilter is the HTTP filter that injects faults. Every connection manager has it; it is
// inactive unless a route configures it.
const faultFilter = "envoy.filters.http.fault"

// newFault translates HTTPFaultInjection; in may be nil. It returns nil if no fault can be
// injected. A fault without a percentage (for a delay, also the deprecated percent) is never
// injected.
func newFault(in *networking.HTTPFaultInjection) *faultv3.HTTPFault {
	out := &faultv3.HTTPFault{Delay: faultDelay(in.GetDelay()), Abort: faultAbort(in.GetAbort())}
	if out.Delay == nil && out.Abort == nil {
		return nil
	}
	return out
}

// faultDelay translates the delay, or returns nil unless it is fixed and positive. Without a
// percentage, the deprecated percent is used, 0 if unset.
func faultDelay(in *networking.HTTPFaultInjection_Delay) *commonfaultv3.FaultDelay {
	if in.GetFixedDelay().AsDuration() <= 0 {
		return nil
	}
	out := &commonfaultv3.FaultDelay{
		FaultDelaySecifier: &commonfaultv3.FaultDelay_FixedDelay{FixedDelay: in.GetFixedDelay()},
		Percentage: &typev3.FractionalPercent{
			Numerator: uint32(max(in.GetPercent(), 0)), //nolint:staticcheck // deprecated, still in use
		},
	}
	if in.GetPercentage() != nil {
		out.Percentage = percentage(in.GetPercentage())
	}
	return out
}

// faultAbort translates the abort. It returns nil without an HTTP status, which is not checked, or
// a gRPC status that grpcCode accepts. Without a percentage it is never injected.
func faultAbort(in *networking.HTTPFaultInjection_Abort) *faultv3.FaultAbort {
	out := &faultv3.FaultAbort{Percentage: percentage(in.GetPercentage())}
	switch e := in.GetErrorType().(type) {
	case *networking.HTTPFaultInjection_Abort_HttpStatus:
		out.ErrorType = &faultv3.FaultAbort_HttpStatus{HttpStatus: uint32(e.HttpStatus)}
	case *networking.HTTPFaultInjection_Abort_GrpcStatus:
		code, ok := grpcCode(e.GrpcStatus)
		if !ok {
			return nil
		}
		out.ErrorType = &faultv3.FaultAbort_GrpcStatus{GrpcStatus: code}
	default:
		return nil
	}
	return out
}

// grpcCode parses a gRPC status by name in upper case ("UNAVAILABLE") or by number from 0 to 16; ok
// is false for other texts.
func grpcCode(name string) (uint32, bool) {
	var c codes.Code
	if c.UnmarshalJSON([]byte(`"`+name+`"`)) != nil && c.UnmarshalJSON([]byte(name)) != nil {
		return 0, false
	}
	return uint32(c), true
}

// percentage translates a Percent, limited to 0 to 100, with a precision of a ten-thousandth of a
// percent; nil for nil.
func percentage(p *networking.Percent) *typev3.FractionalPercent {
	if p == nil {
		return nil
	}
	return &typev3.FractionalPercent{
		Numerator:   uint32(math.Round(min(max(p.GetValue(), 0), 100) * 10_000)),
		Denominator: typev3.FractionalPercent_MILLION,
	}
}
