package echo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// generationHeader is the header that a rule adds to identify its responses.
const generationHeader = "x-generation"

type grpcCaller struct {
	kind Kind
	conn *grpc.ClientConn
	err  error // of making conn

	talk   grpc.ClientStream // the long one, if it is open
	cancel context.CancelFunc
}

func newGRPCCaller(kind Kind, dial Dial, host string, port int) *grpcCaller {
	c := &grpcCaller{kind: kind}
	c.conn, c.err = grpc.NewClient(
		fmt.Sprintf("passthrough:///%s:%d", host, port),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDisableRetry(),
		grpc.WithNoProxy(),
		grpc.WithContextDialer(
			func(ctx context.Context, addr string) (net.Conn, error) { return dial(ctx, "tcp", addr) },
		),
	)
	return c
}

func (c *grpcCaller) Call(ctx context.Context, id string) (Reply, error) {
	if c.err != nil {
		return Reply{}, c.err
	}
	switch c.kind {
	case GRPC:
		return c.callUnary(ctx, id)
	case GRPCOpen:
		return c.callStream(ctx, id)
	default:
		return c.callLongStream(ctx, id)
	}
}

func (c *grpcCaller) callUnary(ctx context.Context, id string) (Reply, error) {
	out, header := new(wrapperspb.StringValue), metadata.MD{}
	ctx = metadata.AppendToOutgoingContext(ctx, idHeader, id)
	if err := c.conn.Invoke(ctx, callMethod, wrapperspb.String(id), out, grpc.Header(&header)); err != nil {
		return Reply{}, err
	}
	return readReply(out, header, id)
}

func readReply(out *wrapperspb.StringValue, header metadata.MD, id string) (Reply, error) {
	r, err := parseReply(out.GetValue(), id)
	r.HTTP = true
	if g := header.Get(generationHeader); len(g) > 0 {
		r.Generation = g[0]
	}
	return r, err
}

// callStream uses a stream for one message, and sees it end well.
func (c *grpcCaller) callStream(ctx context.Context, id string) (Reply, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.conn.NewStream(metadata.AppendToOutgoingContext(ctx, idHeader, id), &talkStream, talkMethod)
	if err != nil {
		return Reply{}, err
	}
	r, err := exchangeMessage(stream, id)
	if err != nil {
		return Reply{}, err
	}
	if err := stream.CloseSend(); err != nil {
		return Reply{}, err
	}
	if err := stream.RecvMsg(new(wrapperspb.StringValue)); !errors.Is(err, io.EOF) {
		return Reply{}, fmt.Errorf("at the end of the stream: %w", err)
	}
	return r, nil
}

// exchangeMessage sends a message and receives its reply.
func exchangeMessage(stream grpc.ClientStream, id string) (Reply, error) {
	out := new(wrapperspb.StringValue)
	// An error of SendMsg only means that the stream has ended; RecvMsg has the reason.
	if err := stream.SendMsg(wrapperspb.String(id)); err != nil && !errors.Is(err, io.EOF) {
		return Reply{}, err
	}
	if err := stream.RecvMsg(out); err != nil {
		return Reply{}, err
	}
	header, err := stream.Header()
	if err != nil {
		return Reply{}, err
	}
	return readReply(out, header, id)
}

func (c *grpcCaller) callLongStream(ctx context.Context, id string) (Reply, error) {
	if c.talk == nil {
		var life context.Context
		life, c.cancel = context.WithCancel(metadata.AppendToOutgoingContext(context.WithoutCancel(ctx), idHeader, id))
		stream, err := c.conn.NewStream(life, &talkStream, talkMethod)
		if err != nil {
			c.cancel()
			return Reply{}, fmt.Errorf("opening the stream: %w", err)
		}
		c.talk = stream
	}
	stop := context.AfterFunc(ctx, c.cancel) // a message has a time limit, the stream has none
	r, err := exchangeMessage(c.talk, id)
	stop()
	if err != nil {
		c.cancel()
		c.talk = nil
		return Reply{}, fmt.Errorf("on the long stream: %w", err)
	}
	return r, nil
}

func (c *grpcCaller) Close() {
	if c.talk != nil {
		c.cancel()
	}
	if c.conn != nil {
		c.conn.Close()
	}
}
