package explain

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// ResponseFlag describes a response flag of access logs (RESPONSE_FLAGS).
type ResponseFlag struct {
	// Flag is the short form, Name the long one (RESPONSE_FLAGS_LONG).
	Flag string `json:"flag"`
	Name string `json:"name"`
	// Status is the usual status of a request with the flag, or 0 if it says nothing about the
	// flag.
	Status int `json:"status,omitempty"`
	// Meaning is the cause in a mesh, and Hints are what to look at.
	Meaning string   `json:"meaning"`
	Hints   []string `json:"hints"`
}

// String formats the flag, its meaning and its hints, each on a line. The status is left out if it
// is 0.
func (f ResponseFlag) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s (%s)", f.Flag, f.Name)
	if f.Status != 0 {
		fmt.Fprintf(&b, ", usually with status %d %s", f.Status, http.StatusText(f.Status))
	}
	fmt.Fprintf(&b, "\n  %s\n", f.Meaning)
	for _, h := range f.Hints {
		fmt.Fprintf(&b, "  - %s\n", h)
	}
	return b.String()
}

// FindResponseFlags returns the descriptions of flags as access logs have them, by their short or
// long names in any case: "503,UF", "UF,URX". A status is ignored beside a flag, and alone selects
// all flags with which it is usual. It returns an error for an unknown flag, a status without
// flags, and an empty text.
func FindResponseFlags(text string) ([]ResponseFlag, error) {
	var found []ResponseFlag
	status := 0
	for part := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ',' || r == ' ' }) {
		if n, err := strconv.Atoi(part); err == nil {
			status = n
			continue
		}
		i := slices.IndexFunc(ResponseFlags(), func(f ResponseFlag) bool {
			return strings.EqualFold(f.Flag, part) || strings.EqualFold(f.Name, part)
		})
		if i < 0 {
			return nil, fmt.Errorf("response flag %q is unknown; known are %s", part, strings.Join(flagNames(), ", "))
		}
		found = append(found, ResponseFlags()[i])
	}
	if len(found) > 0 {
		return found, nil
	}
	found = slices.DeleteFunc(ResponseFlags(), func(f ResponseFlag) bool { return status == 0 || f.Status != status })
	if len(found) == 0 {
		return nil, fmt.Errorf("%q has no response flag, and no flag is usual with that status: "+
			"the application may have answered; see RESPONSE_CODE_DETAILS in the access log", text)
	}
	return found, nil
}

// flagNames returns the abbreviations of all response flags, such as "UF".
func flagNames() (names []string) {
	for _, f := range ResponseFlags() {
		names = append(names, f.Flag)
	}
	return names
}

// ResponseFlags returns the flags of Envoy's access logs, sorted: those of requests that a proxy
// answered or that failed upstream, and those of disconnected clients.
func ResponseFlags() []ResponseFlag {
	list := slices.Concat(upstreamFlags(), routingFlags(), filterFlags(), downstreamFlags())
	slices.SortFunc(list, func(a, b ResponseFlag) int { return strings.Compare(a.Flag, b.Flag) })
	return list
}

// upstreamFlags returns the table of response flags of failures between the proxy and an endpoint:
// flag, Envoy's long name, status, meaning and what to look at.
func upstreamFlags() []ResponseFlag {
	return []ResponseFlag{
		{"UF", "UpstreamConnectionFailure", http.StatusServiceUnavailable,
			"The proxy could not connect to the endpoint: refused, unreachable, timed out, or the TLS handshake failed.",
			[]string{
				"UPSTREAM_TRANSPORT_FAILURE_REASON in the access log: with a TLS error, compare the mode of the DestinationRule " +
					"(trafficPolicy.tls) with the PeerAuthentication of the workload",
				"the workload must listen at the Service's targetPort, on its pod's address and not only on localhost",
				"`pilotctl proxy-config endpoint NAME` has the endpoints; NetworkPolicies and connectTimeout apply to them",
			}},
		{flagNoHealthyHost, "NoHealthyUpstream", http.StatusServiceUnavailable,
			"The cluster has no endpoint that can be used.",
			[]string{
				"`pilotctl endpoints` shows whether pods of the Service are ready; without any, see the Service's selector",
				"the labels of the DestinationRule's subset must select pods",
				"outlierDetection may have ejected the endpoints (`cluster.NAME.outlier_detection.ejections_active`)",
			}},
		{"UC", "UpstreamConnectionTermination", http.StatusServiceUnavailable,
			"The endpoint closed the connection before it had answered.",
			[]string{
				"the application's keep-alive timeout may be shorter than idleTimeout of the DestinationRule (default 1h)",
				"the application may have restarted or crashed; retries (retryOn: reset) repeat such requests",
				"a server that expects TLS, or an upstream proxy with mutual TLS, closes connections in plain text",
			}},
		{"UR", "UpstreamRemoteReset", http.StatusServiceUnavailable, "The endpoint reset the stream.",
			[]string{"the application, or its proxy, reset the request: see its log",
				"HTTP/2 servers reset streams when they shut down"}},
		{"UT", "UpstreamRequestTimeout", http.StatusGatewayTimeout,
			"The endpoint did not answer within the route's timeout.",
			[]string{
				"timeout of the VirtualService's rule, timeouts of the HTTPRoute's rule, or perTryTimeout of its retries",
				"x-envoy-upstream-rq-timeout-ms of the client overrides it",
			}},
		{"URX", "UpstreamRetryLimitExceeded", http.StatusServiceUnavailable,
			"All retries failed, or a TCP connection had as many attempts as are allowed.",
			[]string{"the other flags and the details have the cause of the last try",
				"retries of the rule, or meshConfig.defaultHttpRetryPolicy"}},
		{"UO", "UpstreamOverflow", http.StatusServiceUnavailable, "A circuit breaker of the cluster is open.",
			[]string{
				"connectionPool of the DestinationRule: maxConnections, http1MaxPendingRequests, http2MaxRequests, maxRetries",
				"`cluster.NAME.circuit_breakers.default` of the proxy's statistics",
			}},
		{"UPE", "UpstreamProtocolError", http.StatusBadGateway,
			"The endpoint's answer is not valid HTTP of the expected version.",
			[]string{
				"the name or appProtocol of the Service's port selects the protocol: grpc and http2 need HTTP/2 at the endpoint",
				"h2UpgradePolicy and useClientProtocol of the DestinationRule",
			}},
		{"UMSDR", "UpstreamMaxStreamDurationReached", http.StatusGatewayTimeout,
			"The request lasted longer than the cluster allows.",
			[]string{"max_stream_duration of the cluster, from an EnvoyFilter"}},
		{"LR", "LocalReset", http.StatusServiceUnavailable, "The proxy itself reset the connection to the endpoint.",
			[]string{"see the other flags and RESPONSE_CODE_DETAILS",
				"a cluster that was removed or drained while requests were active"}},
		{"LH", "FailedLocalHealthCheck", http.StatusServiceUnavailable, "The local service failed its health check.",
			[]string{"the health check filter is not generated here: look for an EnvoyFilter"}},
		{"DF", "DnsResolutionFailed", http.StatusServiceUnavailable, "The host of the endpoint could not be resolved.",
			[]string{"hosts and endpoints of the ServiceEntry with resolution DNS or DYNAMIC_DNS",
				"the DNS servers of the proxy's pod"}},
		{"DO", "DropOverLoad", http.StatusServiceUnavailable,
			"The cluster drops this share of its requests (EDS drop_overload).",
			[]string{"only an EnvoyFilter, or another control plane, sets it"}},
		{"UDO", "UnconditionalDropOverload", http.StatusServiceUnavailable,
			"The cluster drops all requests (EDS drop_overload of 100 %).",
			[]string{"only an EnvoyFilter, or another control plane, sets it"}},
	}
}
