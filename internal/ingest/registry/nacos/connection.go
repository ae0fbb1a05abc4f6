package nacos

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

const (
	// requestTimeout limits one request.
	requestTimeout = 10 * time.Second
	// maxMessage limits the size of one message. A service of 10,000 instances stays below it.
	maxMessage = 64 << 20
	// setupTime limits how long a server may take to process the setup of a connection, and
	// setupPause is the pause between two attempts.
	setupTime  = 5 * time.Second
	setupPause = 20 * time.Millisecond
)

// The methods of gRPC.
const (
	methodRequest = "/Request/request"
	methodStream  = "/BiRequestStream/requestBiStream"
)

// connection is a connection to one server. One goroutine may send and another one receive, while
// several wait for responses to requests.
type connection struct {
	server string
	conn   *grpc.ClientConn
	stream grpc.ClientStream
	token  string // access token, or ""
}

// tlsConfig returns the TLS settings, or nil without --nacosTLS. It returns an error if the CA file
// is unusable.
func (s *Settings) tlsConfig() (*tls.Config, error) {
	if !s.TLS {
		return nil, nil //nolint:nilnil // no TLS
	}
	return s.TLSConfig(flagPrefix)
}

// connect opens a connection to a server, and on it the stream of the server's pushes, which ends
// with ctx. The caller must close the connection. It returns an error if the TLS files or the
// address cannot be used. It also does so if the server does not answer or accept requests in time.
func (s *Settings) connect(ctx context.Context, server, token string) (*connection, error) {
	security, err := s.tlsConfig()
	if err != nil {
		return nil, err
	}
	creds := insecure.NewCredentials()
	if security != nil {
		creds = credentials.NewTLS(security)
	}
	address, err := grpcAddress(server)
	if err != nil {
		return nil, err
	}
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(creds),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(codec{}), grpc.MaxCallRecvMsgSize(maxMessage)))
	if err != nil {
		return nil, err
	}
	c := &connection{server: server, conn: conn, token: token}
	if err := c.setUp(ctx, s.NamespaceID); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return c, nil
}

// close closes the connection.
func (c *connection) close() { _ = c.conn.Close() }

// setUp checks the server, opens the stream of pushes, and waits until the server accepts requests.
// It returns an error if a request fails, or if the server does not accept requests within
// setupTime.
func (c *connection) setUp(ctx context.Context, namespace string) error {
	if _, err := c.request(ctx, serverCheckRequest, request{Module: "internal"}); err != nil {
		return err
	}
	stream, err := c.conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, methodStream)
	if err != nil {
		return c.describe(err)
	}
	c.stream = stream
	err = c.send(connectionSetupRequest, request{
		Module: "internal", Tenant: namespace, Version: "meshpilot",
		Labels: map[string]string{"source": "sdk", "module": "naming", "AppName": "meshpilot"},
	})
	if errors.Is(err, io.EOF) {
		_, err = c.receive()
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, setupTime)
	defer cancel()
	for {
		_, err := c.request(ctx, healthCheckRequest, request{Module: "internal"})
		if refused := (*responseError)(nil); !errors.As(err, &refused) || refused.code != codeUnregistered {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(setupPause):
		}
	}
}

// newPayload returns a message of a kind with body as JSON, and with the access token if there is
// one. It returns an error if body cannot be encoded.
func (c *connection) newPayload(kind string, body any) (*payload, error) {
	encoded, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	p := &payload{kind: kind, body: encoded}
	if c.token != "" {
		p.headers = map[string]string{"accessToken": c.token}
	}
	return p, nil
}

// request sends a request and returns the response. It returns a *responseError if that is no
// success, and another error if the server does not answer within requestTimeout or the answer is
// malformed.
func (c *connection) request(ctx context.Context, kind string, body request) (*response, error) {
	in, err := c.newPayload(kind, body)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	var out payload
	if err := c.conn.Invoke(ctx, methodRequest, in, &out); err != nil {
		return nil, c.describe(err)
	}
	return parseResponse(&out)
}

// send sends a message in the stream. It returns the error of the stream, with the server's name:
// io.EOF if the server has ended the stream, whose reason receive returns.
func (c *connection) send(kind string, body any) error {
	p, err := c.newPayload(kind, body)
	if err != nil {
		return err
	}
	return c.describe(c.stream.SendMsg(p))
}

// receive returns the next push of the stream. It blocks until there is one. It returns an error if
// the stream ends or the push is malformed.
func (c *connection) receive() (*push, error) {
	var p payload
	if err := c.stream.RecvMsg(&p); err != nil {
		return nil, c.describe(err)
	}
	return parsePush(&p)
}

// acknowledge acknowledges a push: a push of type XRequest is answered with an XResponse. The type
// of x must end in "Request". It does nothing if the server has ended the stream, which receive
// reports.
func (c *connection) acknowledge(x *push) error {
	kind := x.kind[:len(x.kind)-len("Request")] + "Response"
	err := c.send(kind, map[string]any{
		"requestId": x.ID, "resultCode": codeSuccess, "errorCode": 0, "success": true,
	})
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// describe returns err with the address of the server and without gRPC's code. It returns nil for
// nil.
func (c *connection) describe(err error) error {
	if err == nil {
		return nil
	}
	if s, ok := status.FromError(err); ok {
		return fmt.Errorf("%s: %s", c.server, s.Message())
	}
	return fmt.Errorf("%s: %w", c.server, err)
}
