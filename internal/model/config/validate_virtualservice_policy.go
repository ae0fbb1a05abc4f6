package config

import (
	"slices"
	"strconv"
	"strings"
	"time"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/code"
)

// retryConditions returns the conditions that HTTPRetry.retryOn may contain besides status codes.
// They are the values of Envoy's x-envoy-retry-on and x-envoy-retry-grpc-on.
func retryConditions() []string {
	return []string{
		"5xx",
		"gateway-error",
		"reset",
		"reset-before-request",
		"connect-failure",
		"envoy-ratelimited",
		"retriable-4xx",
		"refused-stream",
		"retriable-status-codes",
		"retriable-headers",
		"http3-post-connect-failure",
		"cancelled",
		"deadline-exceeded",
		"internal",
		"resource-exhausted",
		"unavailable",
	}
}

// checkRetries adds Errors for an invalid retry policy of a route, which may be nil. With attempts
// 0, perTryTimeout, retryOn and retryRemoteLocalities must not be set, as in Istio. Each word of
// retryOn, between commas, must be a status code or a condition of Envoy (retryConditions). A
// timeout per try above the route's, if that is set, is a Warning.
func (r *report) checkRetries(at path, route *networking.HTTPRoute) {
	retries := route.GetRetries()
	if retries == nil {
		return
	}
	r.checkNonNegative(at.Child("attempts"), retries.GetAttempts())
	if retries.GetAttempts() == 0 && (retries.GetPerTryTimeout() != nil || retries.GetRetryOn() != "" ||
		retries.GetRetryRemoteLocalities() != nil) {
		r.errorf(at.Child("attempts"),
			"0 disables retries, so perTryTimeout, retryOn and retryRemoteLocalities must not be set")
	}
	r.checkDuration(at.Child("perTryTimeout"), retries.GetPerTryTimeout())
	r.checkDuration(at.Child("backoff"), retries.GetBackoff())
	if timeout := route.GetTimeout(); timeout != nil && timeout.AsDuration() > 0 &&
		retries.GetPerTryTimeout().AsDuration() > timeout.AsDuration() {
		r.warnf(at.Child("perTryTimeout"), "is longer than the timeout of the route, which ends the request first")
	}
	if retries.GetRetryOn() == "" {
		return
	}
	for _, word := range strings.Split(retries.GetRetryOn(), ",") {
		if code, err := strconv.Atoi(word); err == nil && code >= 100 && code <= 599 {
			continue
		}
		if !slices.Contains(retryConditions(), word) {
			r.errorf(at.Child("retryOn"), "%q is neither an HTTP status code nor one of %s", word,
				strings.Join(retryConditions(), ", "))
		}
	}
}

// checkFaultInjection adds Errors and Warnings for the delay and the abort of a fault. A fault with
// neither is an Error; nil is valid.
func (r *report) checkFaultInjection(at path, fault *networking.HTTPFaultInjection) {
	if fault == nil {
		return
	}
	if fault.GetDelay() == nil && fault.GetAbort() == nil {
		r.errorf(at, "one of delay and abort is required")
	}
	if delay := fault.GetDelay(); delay != nil {
		r.checkFaultDelay(at.Child("delay"), delay)
	}
	if abort := fault.GetAbort(); abort != nil {
		r.checkFaultAbort(at.Child("abort"), abort)
	}
}

// checkFaultDelay adds Errors for an invalid delay or percentage, and for exponentialDelay, which
// is not supported. Without fixedDelay or a percentage the fault has no effect, which is a Warning,
// as is the deprecated percent.
func (r *report) checkFaultDelay(at path, delay *networking.HTTPFaultInjection_Delay) {
	switch kind := delay.GetHttpDelayType().(type) {
	case *networking.HTTPFaultInjection_Delay_FixedDelay:
		r.checkDuration(at.Child("fixedDelay"), kind.FixedDelay)
	case *networking.HTTPFaultInjection_Delay_ExponentialDelay:
		r.errorf(at.Child("exponentialDelay"), "is not supported, use fixedDelay")
	default:
		r.warnf(at, "has no fixedDelay and has no effect")
	}
	//nolint:staticcheck // the deprecated field is still read
	percent := delay.GetPercent()
	if percent != 0 {
		r.warnCode(code.Deprecated, at.Child("percent"), "is deprecated, use percentage")
		r.checkPercent(at.Child("percent"), float64(percent))
	}
	r.checkFaultPercentage(at, delay.GetPercentage(), percent != 0)
}

// checkFaultAbort adds Errors for an invalid HTTP or gRPC status or percentage of an injected
// error, and for an HTTP/2 error, which is not supported. A missing status and a missing percentage
// are Warnings, because the fault then has no effect.
func (r *report) checkFaultAbort(at path, abort *networking.HTTPFaultInjection_Abort) {
	switch kind := abort.GetErrorType().(type) {
	case *networking.HTTPFaultInjection_Abort_HttpStatus:
		r.checkHTTPStatus(at.Child("httpStatus"), int64(kind.HttpStatus))
	case *networking.HTTPFaultInjection_Abort_GrpcStatus:
		if !slices.Contains(grpcStatuses(), kind.GrpcStatus) {
			r.errorf(at.Child("grpcStatus"), "%q must be one of %s", kind.GrpcStatus,
				strings.Join(grpcStatuses(), ", "))
		}
	case *networking.HTTPFaultInjection_Abort_Http2Error:
		r.errorf(at.Child("http2Error"), "is not supported, use httpStatus or grpcStatus")
	default:
		r.warnf(at, "has neither httpStatus nor grpcStatus and has no effect")
	}
	r.checkFaultPercentage(at, abort.GetPercentage(), false)
}

// checkFaultPercentage adds an Error for an invalid percentage. If it is nil, that is a Warning,
// unless another field sets the share (otherwise).
func (r *report) checkFaultPercentage(at path, percentage *networking.Percent, otherwise bool) {
	switch {
	case percentage != nil:
		r.checkPercent(at.Child("percentage", "value"), percentage.GetValue())
	case !otherwise:
		r.warnf(at.Child("percentage"), "is not set, so no request is affected")
	}
}

// grpcStatuses returns the names of the gRPC status codes.
func grpcStatuses() []string {
	return []string{
		"OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
		"PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED",
		"INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
	}
}

// checkMirrors adds Errors for invalid mirrors and percentages of a route, and for the field mirror
// beside mirrors. The deprecated mirrorPercent, and mirrorPercentage without mirror, are Warnings.
func (r *report) checkMirrors(at path, route *networking.HTTPRoute) {
	if route.GetMirror() != nil {
		r.checkDestination(at.Child("mirror"), route.GetMirror())
		if len(route.GetMirrors()) > 0 {
			r.errorf(at.Child("mirrors"), "must not be set together with mirror")
		}
	}
	for i, mirror := range route.GetMirrors() {
		here := at.Child("mirrors").Index(i)
		r.checkDestination(here.Child("destination"), mirror.GetDestination())
		if mirror.GetPercentage() != nil {
			r.checkPercent(here.Child("percentage", "value"), mirror.GetPercentage().GetValue())
		}
	}
	//nolint:staticcheck // the deprecated field is still read
	if percent := route.GetMirrorPercent(); percent != nil {
		r.warnCode(code.Deprecated, at.Child("mirrorPercent"), "is deprecated, use mirrorPercentage")
		r.checkPercent(at.Child("mirrorPercent"), float64(percent.GetValue()))
	}
	if route.GetMirrorPercentage() != nil {
		r.checkPercent(at.Child("mirrorPercentage", "value"), route.GetMirrorPercentage().GetValue())
		if route.GetMirror() == nil {
			r.warnf(at.Child("mirrorPercentage"), "has no effect without mirror")
		}
	}
}

// checkCORS adds Errors for an invalid CORS policy, which may be nil, and a Warning for the
// deprecated allowOrigin. Origins need exact, prefix or regex; maxAge must be whole seconds.
func (r *report) checkCORS(at path, cors *networking.CorsPolicy) {
	if cors == nil {
		return
	}
	//nolint:staticcheck // the deprecated field is still read
	if len(cors.GetAllowOrigin()) > 0 {
		r.warnCode(code.Deprecated, at.Child("allowOrigin"), "is deprecated, use allowOrigins")
	}
	for i, origin := range cors.GetAllowOrigins() {
		here := at.Child("allowOrigins").Index(i)
		if origin.GetMatchType() == nil {
			r.errorf(here, "one of exact, prefix and regex is required")
		}
		r.checkStringMatch(here, origin, false)
	}
	r.checkHTTPMethods(at.Child("allowMethods"), cors.GetAllowMethods())
	r.checkHeaderNames(at.Child("allowHeaders"), cors.GetAllowHeaders())
	r.checkHeaderNames(at.Child("exposeHeaders"), cors.GetExposeHeaders())
	r.checkDuration(at.Child("maxAge"), cors.GetMaxAge())
	if cors.GetMaxAge().AsDuration()%time.Second != 0 {
		r.errorf(at.Child("maxAge"), "must be whole seconds, as Access-Control-Max-Age is")
	}
}

// checkHeaders adds Errors for invalid changes of request and response headers. headers may be nil.
func (r *report) checkHeaders(at path, headers *networking.Headers) {
	r.checkHeaderOperations(at.Child("request"), headers.GetRequest(), true)
	r.checkHeaderOperations(at.Child("response"), headers.GetResponse(), false)
}

// checkHeaderOperations adds Errors and Warnings for names that proxies cannot change
// (checkChangedHeader), and Errors for invalid values. request is set for headers of requests: set
// or add may then contain the host, as "host" in any case or ":authority", but only once.
func (r *report) checkHeaderOperations(at path, ops *networking.Headers_HeaderOperations, request bool) {
	authorities := 0
	for _, change := range []struct {
		at     path
		values map[string]string
	}{{at.Child("set"), ops.GetSet()}, {at.Child("add"), ops.GetAdd()}} {
		for _, name := range sortedKeys(change.values) {
			here := change.at.Key(name)
			// Setting the authority of a request is treated as a rewrite of the host.
			if request && (strings.EqualFold(name, "host") || name == ":authority") {
				if authorities++; authorities > 1 {
					r.errorf(here, "the host is set more than once")
				}
			} else {
				r.checkChangedHeader(here, name)
			}
			r.addFault(here, HeaderValueFault(change.values[name]))
		}
	}
	for i, name := range ops.GetRemove() {
		r.checkChangedHeader(at.Child("remove").Index(i), name)
	}
}

// checkChangedHeader adds an Error if proxies cannot change a header of this name, such as a
// pseudo-header or Host. A name that HTTP does not allow is a Warning.
func (r *report) checkChangedHeader(at path, name string) {
	switch {
	case name == "":
		r.errorf(at, "a header name is required")
	case len(name) > maxHeader:
		r.errorf(at, "the header name has %d bytes, at most %d are allowed", len(name), maxHeader)
	case strings.HasPrefix(name, ":"):
		r.errorf(at, "%q: headers beginning with \":\" cannot be changed", name)
	case strings.EqualFold(name, "host"):
		r.errorf(at, "%q cannot be changed here, use rewrite.authority", name)
	case strings.ContainsAny(name, "\x00\r\n"):
		r.errorf(at, "%q has a line break or a zero byte", name)
	case !isToken(name):
		r.warnf(at, "%q is not a header name that HTTP allows", name)
	}
}
