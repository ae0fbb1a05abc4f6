package hostileclients

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/test/perf/wire"
)

const (
	certificateMethod = "/istio.v1.auth.IstioCertificateService/CreateCertificate"
	// largestMessage is just below the largest message that the control plane has ever accepted.
	largestMessage = 16<<20 - 1024
)

// rawMessage is a message that is already encoded.
type rawMessage []byte

// rawCodec sends rawMessages, and discards what it receives.
type rawCodec struct{}

func (rawCodec) Marshal(v any) ([]byte, error) {
	return v.(rawMessage),
		nil
}                                            //nolint:forcetypeassert // only these are sent
func (rawCodec) Unmarshal([]byte, any) error { return nil }
func (rawCodec) Name() string                { return "proto" }

func bytesField(number protowire.Number, content []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), content)
}

// nulls is a google.protobuf.Struct of about so many bytes: one field with a list of nulls. A null
// takes four bytes on the wire and about 100 bytes once it is decoded.
var nulls = sync.OnceValue(func() []byte { //nolint:gochecknoglobals // a constant that is computed once
	null := bytesField(1, []byte{0x08, 0}) // an element of ListValue: a Value with null_value
	list := make([]byte, 0, largestMessage)
	for len(list)+len(null) < largestMessage-256 {
		list = append(list, null...)
	}
	value := bytesField(6, list) // Value.list_value
	return bytesField(1, append(bytesField(1, []byte("a")), bytesField(2, value)...))
})

// csrOfNulls calls CreateCertificate with 16 MiB of nulls as metadata.
func csrOfNulls(ctx context.Context, a *attacker, _ *rand.Rand, d door) error {
	return a.unary(ctx, d, bytesField(4, nulls()))
}

// csrCompressed is csrOfNulls with gzip: 16 KiB on the wire.
func csrCompressed(ctx context.Context, a *attacker, _ *rand.Rand, d door) error {
	return a.unary(ctx, d, bytesField(4, nulls()), grpc.UseCompressor(gzip.Name))
}

func (a *attacker) unary(ctx context.Context, d door, message rawMessage, more ...grpc.CallOption) error {
	conn, err := a.connect(d)
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer not.a.token")
	return conn.Invoke(ctx, certificateMethod, message, nil, append(more, grpc.ForceCodec(rawCodec{}))...)
}

// giantFirstRequest opens a stream whose first request is 16 MiB: a node full of nulls.
func giantFirstRequest(ctx context.Context, a *attacker, r *rand.Rand, d door) error {
	head, err := rawCodecNode(a, fmt.Sprintf("giant-%d", r.IntN(1000)))
	if err != nil {
		return err
	}
	request := bytesField(2, append(head, bytesField(3, nulls())...))
	return a.rawStream(ctx, d, wire.SotWMethod, append(request, bytesField(4, []byte(api.ClusterType))...))
}

// rawCodecNode is the beginning of a Node: its id.
func rawCodecNode(a *attacker, name string) ([]byte, error) {
	return bytesField(1, []byte(a.node(name, nil).Id)), nil
}

// rawStream opens a stream, sends one message, and keeps the stream open until it ends.
func (a *attacker) rawStream(ctx context.Context, d door, method string, message rawMessage) error {
	conn, err := a.connect(d)
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	st, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, method,
		grpc.ForceCodec(rawCodec{}))
	if err != nil {
		return err
	}
	if err := st.SendMsg(message); err != nil {
		return err
	}
	for {
		var ignored rawMessage
		if err := st.RecvMsg(&ignored); err != nil {
			return err
		}
	}
}

// manyNames subscribes to 4 × 500,000 clusters that do not exist, as many as fit into a message
// each.
func manyNames(ctx context.Context, a *attacker, r *rand.Rand, d door) error {
	conn, err := a.connect(d)
	if err != nil {
		return err
	}
	defer conn.Close()
	st, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx)
	if err != nil {
		return err
	}
	node := a.node(fmt.Sprintf("names-%d", r.IntN(1000)), nil)
	for i := range 4 {
		names := make([]string, 500_000)
		for j := range names {
			names[j] = fmt.Sprintf("outbound|80||%d.%d.x", i, j)
		}
		request := &discoveryv3.DeltaDiscoveryRequest{Node: node, TypeUrl: api.EndpointType,
			ResourceNamesSubscribe: names}
		if err := st.Send(request); err != nil {
			_, err = st.Recv()
			return err
		}
		node = nil
	}
	a.count(2_000_000)
	for {
		if _, err := st.Recv(); err != nil {
			return err
		}
	}
}

// silentReader subscribes to everything and never reads: its receive window stays as small as
// HTTP/2 allows.
func silentReader(ctx context.Context, a *attacker, r *rand.Rand, d door) error {
	conn, err := a.connect(d, grpc.WithInitialWindowSize(64<<10), grpc.WithStaticStreamWindowSize(64<<10))
	if err != nil {
		return err
	}
	defer conn.Close()
	for i := range 20 {
		st, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).StreamAggregatedResources(ctx)
		if err != nil {
			return err
		}
		node := a.node(fmt.Sprintf("blocked-%d-%d", r.IntN(1000), i), nil)
		for _, typeURL := range []string{api.ClusterType, api.ListenerType} {
			if err := st.Send(&discoveryv3.DiscoveryRequest{Node: node, TypeUrl: typeURL}); err != nil {
				return err
			}
			node = nil
		}
	}
	<-ctx.Done()
	return nil
}
