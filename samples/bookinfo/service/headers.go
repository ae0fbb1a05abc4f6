package service

import "net/http"

// passedOn returns the headers that a request to another service takes over from the one that
// caused it: the headers that tie spans and logs together, for every tracer that Istio documents,
// and those of the user.
func passedOn(from http.Header) http.Header {
	to := http.Header{}
	for _, name := range []string{
		// Envoy: access logs, and sampling that is consistent along the way.
		"x-request-id",
		// W3C Trace Context and Baggage.
		"traceparent", "tracestate", "baggage",
		// Zipkin B3, in many headers and in one.
		"x-b3-traceid", "x-b3-spanid", "x-b3-parentspanid", "x-b3-sampled", "x-b3-flags", "b3",
		// Lightstep, Datadog, Google Cloud, gRPC, SkyWalking.
		"x-ot-span-context",
		"x-datadog-trace-id", "x-datadog-parent-id", "x-datadog-sampling-priority",
		"x-cloud-trace-context", "grpc-trace-bin", "sw8",
		// The user and the session.
		"end-user", "user-agent", "cookie", "authorization", "jwt",
		// A failure that was asked for, see failure.go.
		failFirstHeader,
	} {
		if values := from.Values(name); len(values) > 0 {
			to[http.CanonicalHeaderKey(name)] = values
		}
	}
	return to
}
