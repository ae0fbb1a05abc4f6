package server

import (
	"context"
	"strconv"
	"strings"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/meshpilot/meshpilot/internal/xds/push"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// Types of requests about the control plane itself, which istioctl sends. debugType requests a page
// by its name, as text. The other two have messages as responses.
const (
	debugType  = "istio.io/debug"
	debugSyncz = debugType + "/syncz"
	debugDump  = debugType + "/config_dump"
)

// Debug answers requests about the control plane itself.
type Debug interface {
	// Identifier returns ControlPlane.identifier of the responses. istioctl expects JSON there:
	// {"Component","ID","Info"}.
	Identifier() string
	// Namespace returns the namespace whose proxies a client may see; "" means all namespaces. The
	// error is a gRPC status.
	Namespace(h Hello) (string, error)
	// Page returns a page by its name, for example "syncz" or "edsz?proxyID=web-1.shop". The client
	// may see only proxies of the namespace ("": of all). The error is a gRPC status. The text of
	// NotFound and InvalidArgument is shown in place of the page.
	Page(name, namespace string) ([]byte, error)
	// ConfigDump returns the configuration that a proxy was sent, as the parts of Envoy's
	// ConfigDump.
	ConfigDump(c push.Connection) ([]*anypb.Any, error)
}

// isDebug reports whether a type URL denotes a debug request: debugType itself, or a page below it.
func isDebug(typeURL string) bool {
	return typeURL == debugType || strings.HasPrefix(typeURL, debugType+"/")
}

// named is a resource with its name. Only delta responses contain the name.
type named struct {
	name string
	body *anypb.Any
}

// answerAll serves a stream whose first request in is a debug request, until the stream ends, and
// returns why it ended. It answers further debug requests, and ignores ACKs and requests of other
// types. A refused debug request ends the stream. A goroutine reads the requests (readRequests);
// answered is called after each response was written.
func (x *session) answerAll(in *incoming, answered func()) error {
	requests := x.readRequests(in)
	hello := x.describeClient(in.node)
	nonces := map[string]bool{}
	for {
		select {
		case in = <-requests:
		case <-x.ctx.Done():
			return context.Cause(x.ctx)
		}
		if !isDebug(in.TypeURL) || nonces[in.Nonce] { // an ACK of a response
			continue
		}
		list, err := x.s.answerDebug(hello, in)
		if err != nil {
			return err
		}
		nonce := strconv.Itoa(len(nonces) + 1)
		nonces[nonce] = true
		if err := x.writeMessage(x.debugResponse(in.TypeURL, nonce, list)); err != nil {
			return err
		}
		answered()
	}
}

// answerOnProxyStream answers a debug request on the stream of a proxy, whose agent forwards
// requests of istioctl. If the request is refused, it logs why and sends an empty response, because
// a debug request must not end the stream. Only a failed write ends it. ACKs of such responses are
// ignored.
func (x *session) answerOnProxyStream(in *incoming) {
	if in.Nonce == betweenNonce {
		return // an ACK of a response
	}
	list, err := x.s.answerDebug(x.describeClient(nil), in)
	if err != nil {
		x.s.log.Info("ADS: debug request refused", "peer", x.link.peer, "type", in.TypeURL, "err", err)
		list = nil
	}
	if err := x.writeMessage(x.debugResponse(in.TypeURL, betweenNonce, list)); err != nil {
		x.end(err)
	}
}

// betweenNonce is a nonce that no response to a proxy has.
const betweenNonce = "debug"

// answerDebug returns the resources of the response to a debug request, limited to the namespace
// that the client may see. For other types than debugType the page is the rest of the type URL.
// NotFound and InvalidArgument of a page become its content, as in istiod. Otherwise the error is a
// gRPC status: no debug handler, no permission, or not exactly one page name. A config dump with
// another number of names than one has no resources and no error.
func (s *Server) answerDebug(h Hello, in *incoming) ([]named, error) {
	if s.debug == nil {
		return nil, status.Error(codes.Unimplemented, "this control plane does not answer debug requests")
	}
	namespace, err := s.debug.Namespace(h)
	if err != nil {
		return nil, err
	}
	names := append(in.Names, in.Subscribe...)
	switch in.TypeURL {
	case debugSyncz:
		return s.clientConfigs(namespace)
	case debugDump:
		if len(names) != 1 {
			return nil, nil
		}
		return s.configDump(names[0], namespace)
	case debugType:
		if len(names) != 1 {
			return nil, status.Error(
				codes.InvalidArgument,
				"a debug request needs exactly one resource name: the name of the page",
			)
		}
	default:
		names = []string{strings.TrimPrefix(in.TypeURL, debugType+"/")}
	}
	body, err := s.debug.Page(names[0], namespace)
	switch status.Code(err) {
	case codes.OK:
	case codes.NotFound,
		codes.InvalidArgument: // like istiod's pages, which have the error in their text, where istioctl reads it
		body = []byte(status.Convert(err).Message())
	default:
		return nil, err
	}
	return []named{{names[0], &anypb.Any{TypeUrl: debugType, Value: body}}}, nil
}

// debugResponse returns a SotW or delta response, as the stream requires, with the resources of
// list. The SotW form has no names, and the nonce as its version.
func (x *session) debugResponse(typeURL, nonce string, list []named) proto.Message {
	control := controlPlane(x.s.debug)
	if x.mode == stream.Delta {
		m := &discoveryv3.DeltaDiscoveryResponse{TypeUrl: typeURL, Nonce: nonce, ControlPlane: control}
		for _, r := range list {
			m.Resources = append(m.Resources, &discoveryv3.Resource{Name: r.name, Resource: r.body})
		}
		return m
	}
	m := &discoveryv3.DiscoveryResponse{TypeUrl: typeURL, VersionInfo: nonce, Nonce: nonce, ControlPlane: control}
	for _, r := range list {
		m.Resources = append(m.Resources, r.body)
	}
	return m
}
