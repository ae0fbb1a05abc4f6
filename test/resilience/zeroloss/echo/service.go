package echo

import (
	"context"
	"errors"
	"io"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// The gRPC service, by hand: a message is a string, an id one way and a reply the other.
const (
	callMethod = "/loss.Echo/Call"
	talkMethod = "/loss.Echo/Talk"
)

var talkStream = grpc.StreamDesc{StreamName: "Talk", Handler: serveTalk, ServerStreams: true, ClientStreams: true}

var service = grpc.ServiceDesc{
	ServiceName: "loss.Echo",
	HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{
		{
			MethodName: "Call",
			Handler: func(srv any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
				in := new(wrapperspb.StringValue)
				if err := decode(in); err != nil {
					return nil, err
				}
				return wrapperspb.String(srv.(*Server).replyTo(localAddr(ctx), in.GetValue())), nil
			},
		},
	},
	Streams: []grpc.StreamDesc{talkStream},
}

// serveTalk answers each message until the client has no more.
func serveTalk(srv any, stream grpc.ServerStream) error {
	local := localAddr(stream.Context())
	for {
		in := new(wrapperspb.StringValue)
		switch err := stream.RecvMsg(in); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if err := stream.SendMsg(wrapperspb.String(srv.(*Server).replyTo(local, in.GetValue()))); err != nil {
			return err
		}
	}
}

func localAddr(ctx context.Context) net.Addr {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return nil
	}
	return p.LocalAddr
}
