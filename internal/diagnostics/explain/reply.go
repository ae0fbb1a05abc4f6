package explain

import (
	"net/http"
	"strconv"
)

// localReply returns a response of the proxy itself. For gRPC requests it has status 200 and a
// grpc-status for status.
func (x *exchange) localReply(status int, body, reason string) Ending {
	e := Ending{Share: 1, Kind: Answered, Status: status, Body: body, Reason: reason}
	if x.routed.route != nil {
		e.Route = x.routed.route.GetName()
	}
	return e.withGRPC(x.request.isGRPC(), grpcOfHTTP(status), body)
}

// withGRPC converts an answer to a gRPC response with status 200, no body, and code and message as
// headers; an empty message is left out. If grpc is false, it returns e unchanged.
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

// withFlags returns e with its response flags replaced by flags.
func (e Ending) withFlags(flags string) Ending {
	e.Flags = flags
	return e
}

// gRPC status codes (google.rpc.Code).
const (
	grpcUnknown       = 2
	grpcDenied        = 7
	grpcUnimplemented = 12
	grpcInternal      = 13
	grpcUnavailable   = 14
	grpcUnauthentic   = 16
)

// grpcOfHTTP maps an HTTP status to a gRPC status code (doc/http-grpc-status-mapping.md of gRPC).
// Statuses that are not in that table, 200 too, become Unknown.
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
