package explain

import (
	"net/http"
	"strconv"
)

// reply is what the proxy answers itself. To gRPC callers it says so in their way: status 200 and grpc-status.
func (x *exchange) reply(status int, body, reason string) Ending {
	e := Ending{Share: 1, Kind: Answered, Status: status, Body: body, Reason: reason}
	if x.routed.route != nil {
		e.Route = x.routed.route.GetName()
	}
	return e.withGRPC(x.request.grpc(), grpcOfHTTP(status), body)
}

// withGRPC says an answer in gRPC's way, if the caller speaks it.
func (e Ending) withGRPC(grpc bool, code uint32, message string) Ending {
	if !grpc {
		return e
	}
	e.Status, e.Body = http.StatusOK, ""
	e.Header = []Header{{"content-type", "application/grpc"}, {"grpc-status", strconv.FormatUint(uint64(code), 10)}}
	if message != "" {
		e.Header = append(e.Header, Header{"grpc-message", message})
	}
	return e
}

// Codes of gRPC (google.rpc.Code).
const (
	grpcUnknown       = 2
	grpcDenied        = 7
	grpcUnimplemented = 12
	grpcInternal      = 13
	grpcUnavailable   = 14
	grpcUnauthentic   = 16
)

// grpcOfHTTP maps a status as gRPC over HTTP/2 demands (doc/http-grpc-status-mapping.md of gRPC).
func grpcOfHTTP(status int) uint32 {
	switch status {
	case http.StatusBadRequest:
		return grpcInternal
	case http.StatusUnauthorized:
		return grpcUnauthentic
	case http.StatusForbidden:
		return grpcDenied
	case http.StatusNotFound:
		return grpcUnimplemented
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return grpcUnavailable
	default:
		return grpcUnknown
	}
}
