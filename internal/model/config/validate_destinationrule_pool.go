package config

import (
	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/code"
)

// checkConnectionPool adds Errors for a negative maxConnections, invalid durations and invalid HTTP
// limits (checkHTTPPool) of a DestinationRule or Sidecar. nil is valid, a pool without tcp and http
// is not.
func (r *report) checkConnectionPool(at path, pool *networking.ConnectionPoolSettings) {
	if pool == nil {
		return
	}
	if pool.GetTcp() == nil && pool.GetHttp() == nil {
		r.errorf(at, "is empty, one of tcp and http is required")
	}
	if tcp := pool.GetTcp(); tcp != nil {
		at := at.Child("tcp")
		r.checkNonNegative(at.Child("maxConnections"), tcp.GetMaxConnections())
		r.checkDuration(at.Child("connectTimeout"), tcp.GetConnectTimeout())
		r.checkDuration(at.Child("maxConnectionDuration"), tcp.GetMaxConnectionDuration())
		r.checkDurationOrZero(at.Child("idleTimeout"), tcp.GetIdleTimeout()) // 0s disables it
		r.checkDuration(at.Child("tcpKeepalive", "time"), tcp.GetTcpKeepalive().GetTime())
		r.checkDuration(at.Child("tcpKeepalive", "interval"), tcp.GetTcpKeepalive().GetInterval())
	}
	if http := pool.GetHttp(); http != nil {
		r.checkHTTPPool(at.Child("http"), http)
	}
}

// checkHTTPPool adds Errors for the HTTP limits of a connection pool: negative numbers, invalid
// durations, useClientProtocol with h2UpgradePolicy UPGRADE, and http2KeepAlive without interval or
// timeout.
func (r *report) checkHTTPPool(at path, http *networking.ConnectionPoolSettings_HTTPSettings) {
	r.checkNonNegative(at.Child("http1MaxPendingRequests"), http.GetHttp1MaxPendingRequests())
	r.checkNonNegative(at.Child("http2MaxRequests"), http.GetHttp2MaxRequests())
	r.checkNonNegative(at.Child("maxRequestsPerConnection"), http.GetMaxRequestsPerConnection())
	r.checkNonNegative(at.Child("maxRetries"), http.GetMaxRetries())
	r.checkNonNegative(at.Child("maxConcurrentStreams"), http.GetMaxConcurrentStreams())
	r.checkDuration(at.Child("idleTimeout"), http.GetIdleTimeout())
	if http.GetUseClientProtocol() &&
		http.GetH2UpgradePolicy() == networking.ConnectionPoolSettings_HTTPSettings_UPGRADE {
		r.errorf(at.Child("useClientProtocol"), "must not be true when h2UpgradePolicy is UPGRADE")
	}
	if keepalive := http.GetHttp2KeepAlive(); keepalive != nil {
		at := at.Child("http2KeepAlive")
		if keepalive.GetInterval() == nil {
			r.errorf(at.Child("interval"), "is required")
		}
		if keepalive.GetTimeout() == nil {
			r.errorf(at.Child("timeout"), "is required")
		}
		r.checkDuration(at.Child("interval"), keepalive.GetInterval())
		r.checkDuration(at.Child("timeout"), keepalive.GetTimeout())
	}
}

// checkOutlierDetection adds Errors for invalid times, percentages and status codes of outlier
// detection, and for consecutiveLocalOriginFailures without splitExternalLocalOriginErrors. The
// deprecated consecutiveErrors is a Warning, and also an Error if negative. nil is valid.
func (r *report) checkOutlierDetection(at path, outlier *networking.OutlierDetection) {
	if outlier == nil {
		return
	}
	//nolint:staticcheck // the deprecated field is still read
	if outlier.GetConsecutiveErrors() != 0 {
		r.warnCode(code.Deprecated, at.Child("consecutiveErrors"),
			"is deprecated, use consecutiveGatewayErrors or consecutive5xxErrors")
		//nolint:staticcheck // as above
		r.checkNonNegative(at.Child("consecutiveErrors"), outlier.GetConsecutiveErrors())
	}
	if !outlier.GetSplitExternalLocalOriginErrors() && outlier.GetConsecutiveLocalOriginFailures().GetValue() > 0 {
		r.errorf(at.Child("consecutiveLocalOriginFailures"),
			"has no effect unless splitExternalLocalOriginErrors is true")
	}
	r.checkDuration(at.Child("interval"), outlier.GetInterval())
	r.checkDuration(at.Child("baseEjectionTime"), outlier.GetBaseEjectionTime())
	r.checkPercent(at.Child("maxEjectionPercent"), float64(outlier.GetMaxEjectionPercent()))
	r.checkPercent(at.Child("minHealthPercent"), float64(outlier.GetMinHealthPercent()))
	for i, code := range outlier.GetOutlierDetectionHttpErrorCodes() {
		if code < 100 || code > 599 {
			r.errorf(at.Child("outlierDetectionHttpErrorCodes").Index(i), "%d is not in the range 100..599", code)
		}
	}
}
