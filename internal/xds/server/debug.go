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

// The types of requests about the control plane itself, which istioctl sends: a page by its name, as text, and two that come
// as messages.
const (
	debugType  = "istio.io/debug"
	debugSyncz = debugType + "/syncz"
	debugDump  = debugType + "/config_dump"
)

// Debug answers requests about the control plane itself.
type Debug interface {
	// Identifier is ControlPlane.identifier of the answers. istioctl wants JSON there: {"Component","ID","Info"}.
	Identifier() string
	// Namespace says whose proxies a client may see: those of one namespace, or with "" all. The error is a gRPC status.
	Namespace(h Hello) (string, error)
	// Page gives a page by its name, as "syncz" or "edsz?proxyID=web-1.shop", for one who may see proxies of the namespace
	// ("": of all). The error is a gRPC status; the text of NotFound and InvalidArgument is shown in place of the page.
	Page(name, namespace string) ([]byte, error)
	// ConfigDump gives what a proxy was sent, as the parts of Envoy's ConfigDump.
	ConfigDump(c push.Connection) ([]*anypb.Any, error)
}

// isDebug says whether a type is one of requests about the control plane.
func isDebug(typeURL string) bool {
	return typeURL == debugType || strings.HasPrefix(typeURL, debugType+"/")
}

// named is a resource with its name, which only delta sends.
type named struct {
	name string
	body *anypb.Any
}

// answerAll serves a stream that began with a question: it asks, and asks again, and is not a proxy.
// answered is called when the first answer was written.
func (x *session) answerAll(in *incoming, answered func()) error {
	requests := x.read(in)
	hello := x.introduction(in.node)
	nonces := map[string]bool{}
	for {
		select {
		case in = <-requests:
		case <-x.ctx.Done():
			return context.Cause(x.ctx)
		}
		if !isDebug(in.TypeURL) || nonces[in.Nonce] { // the latter acknowledges an answer
			continue
		}
		list, err := x.s.answer(hello, in)
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

// answerBetween answers a question that came on the stream of a proxy: its agent passes on what people ask it. A question
// without an answer has an empty one, for it must not end the stream.
func (x *session) answerBetween(in *incoming) {
	if in.Nonce == betweenNonce {
		return // acknowledges an answer
	}
	list, err := x.s.answer(x.introduction(nil), in)
	if err != nil {
		x.s.log.Info("ADS: debug request refused", "peer", x.link.peer, "type", in.TypeURL, "err", err)
		list = nil
	}
	if err := x.writeMessage(x.debugResponse(in.TypeURL, betweenNonce, list)); err != nil {
		x.end(err)
	}
}

// betweenNonce is one that no response to a proxy has.
const betweenNonce = "debug"

// answer gives the resources of an answer.
func (s *Server) answer(h Hello, in *incoming) ([]named, error) {
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
		return s.syncz(namespace)
	case debugDump:
		if len(names) != 1 {
			return nil, nil
		}
		return s.configDump(names[0], namespace)
	case debugType:
		if len(names) != 1 {
			return nil, status.Error(codes.InvalidArgument, "exactly one resource name is wanted: the page")
		}
	default:
		names = []string{strings.TrimPrefix(in.TypeURL, debugType+"/")}
	}
	body, err := s.debug.Page(names[0], namespace)
	switch status.Code(err) {
	case codes.OK:
	case codes.NotFound, codes.InvalidArgument: // istiod's pages say so in their text, which istioctl reads
		body = []byte(status.Convert(err).Message())
	default:
		return nil, err
	}
	return []named{{names[0], &anypb.Any{TypeUrl: debugType, Value: body}}}, nil
}

// debugResponse makes the response of the stream's mode.
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
