package discovery

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	transport "google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"
	security "istio.io/api/security/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/test/support/longtest"
)

const (
	// honestLimit is the time in which an honest client must connect during an attack. It only separates
	// service from starvation, also on a loaded machine; `make attack` measures latencies.
	honestLimit = 10 * time.Second
	// attackMemory is how much the process may grow during an attack, including the attackers.
	attackMemory = 512 << 20
)

// encoded is a codec that sends bytes unchanged, so that the attackers' own work is not measured.
type encoded struct{ encoding.CodecV2 }

func (e encoded) Marshal(v any) (mem.BufferSlice, error) {
	if b, ok := v.([]byte); ok {
		return mem.BufferSlice{mem.SliceBuffer(b)}, nil
	}
	return e.CodecV2.Marshal(v)
}

// attacker has the addresses and limits that attacks use.
type attacker struct {
	*laptop
	ctx     context.Context
	running *sync.WaitGroup
}

func (a attacker) each(n int, pause time.Duration, f func()) {
	a.running.Go(func() {
		var all sync.WaitGroup
		defer all.Wait()
		for i := 0; (n == 0 || i < n) && a.ctx.Err() == nil; i++ {
			all.Go(f)
			select {
			case <-time.After(pause):
			case <-a.ctx.Done():
			}
		}
	})
}

// connect opens a connection to the port in plain text or with TLS, without credentials.
func (a attacker) connect(secure bool) (*grpc.ClientConn, error) {
	address, credentials := a.grpc, insecure.NewCredentials()
	if secure {
		address, credentials = a.secure, transport.NewTLS(&tls.Config{InsecureSkipVerify: true})
	}
	return grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(credentials),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(encoded{encoding.GetCodecV2(proto.Name)}), grpc.MaxCallSendMsgSize(1<<30)))
}

// stream sends messages on a stream of a new connection, and waits until it ends.
func (a attacker) stream(secure bool, messages ...[]byte) {
	conn, err := a.connect(secure)
	if err != nil {
		return
	}
	defer conn.Close()
	desc := &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}
	st, err := conn.NewStream(a.ctx, desc, discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResources_FullMethodName)
	if err != nil {
		return
	}
	for _, m := range messages {
		if st.SendMsg(m) != nil {
			break
		}
	}
	for err == nil {
		err = st.RecvMsg(new(discoveryv3.DeltaDiscoveryResponse))
	}
}

// holdConnection opens a TCP connection, writes something and waits until it is closed.
func (a attacker) holdConnection(address string, first []byte) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer conn.Close()
	stop := context.AfterFunc(a.ctx, func() { conn.Close() })
	defer stop()
	if _, err := conn.Write(first); err == nil {
		_, _ = io.Copy(io.Discard, conn) // until either side closes the connection
	}
}

func nullList(n int) *structpb.Struct {
	list := new(structpb.ListValue)
	for range n {
		list.Values = append(list.Values, structpb.NewNullValue())
	}
	return &structpb.Struct{Fields: map[string]*structpb.Value{"a": structpb.NewListValue(list)}}
}

func encode(t *testing.T, m any) []byte {
	t.Helper()
	b, err := encoding.GetCodecV2(proto.Name).Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b.Materialize()
}

// attacks returns the attacks that clients without credentials can make on the xDS ports.
func attacks(t *testing.T) map[string]func(attacker) {
	t.Helper()
	large := &discoveryv3.DeltaDiscoveryRequest{Node: node("shop", nil), TypeUrl: api.ClusterType, InitialResourceVersions: map[string]string{}}
	for i := range 150_000 {
		large.InitialResourceVersions[fmt.Sprintf("outbound|80||service-%d.namespace-of-some-length.svc.cluster.local", i)] = "0123456789abcdef0123456789abcdef"
	}
	nulls := &discoveryv3.DeltaDiscoveryRequest{Node: node("shop", nil), TypeUrl: api.ClusterType}
	nulls.Node.Metadata = nullList(2_000_000)
	var names [][]byte
	for i := range 25 {
		m := &discoveryv3.DeltaDiscoveryRequest{Node: node("shop", nil), TypeUrl: api.EndpointType}
		for k := range 20_000 {
			m.ResourceNamesSubscribe = append(m.ResourceNamesSubscribe, fmt.Sprintf("outbound|80||s%d.x", i*20_000+k))
		}
		names = append(names, encode(t, m))
	}
	state, metadata, request := encode(t, large), encode(t, nulls), encode(t, &security.IstioCertificateRequest{Csr: "x", Metadata: nulls.Node.Metadata})
	hello := []byte{22, 3, 1, 1, 0, 1, 0, 0, 0xfc} // the beginning of a ClientHello
	eight := func(f func(a attacker)) func(attacker) {
		return func(a attacker) {
			for range 8 {
				a.running.Go(func() {
					for a.ctx.Err() == nil {
						f(a)
						time.Sleep(20 * time.Millisecond)
					}
				})
			}
		}
	}
	return map[string]func(attacker){
		"silent streams in plain text": func(a attacker) { a.each(0, 12*time.Millisecond, func() { a.stream(false) }) },
		"silent streams over TLS":      func(a attacker) { a.each(0, 12*time.Millisecond, func() { a.stream(true) }) },
		"idle connections in plain text": func(a attacker) {
			a.each(1000, 0, func() { a.holdConnection(a.grpc, nil) })
		},
		"idle connections over TLS": func(a attacker) { a.each(1000, 0, func() { a.holdConnection(a.secure, nil) }) },
		"handshakes without end":    func(a attacker) { a.each(1000, 0, func() { a.holdConnection(a.secure, hello) }) },
		"large first requests":      eight(func(a attacker) { a.stream(false, state) }),
		"large nodes":               eight(func(a attacker) { a.stream(false, metadata) }),
		"names": func(a attacker) {
			for range 4 {
				a.running.Go(func() {
					for a.ctx.Err() == nil {
						a.stream(false, names...)
						time.Sleep(100 * time.Millisecond)
					}
				})
			}
		},
		"certificate requests": eight(func(a attacker) {
			conn, err := a.connect(true)
			if err != nil {
				return
			}
			defer conn.Close()
			_ = conn.Invoke(a.ctx, security.IstioCertificateService_CreateCertificate_FullMethodName, request, new(security.IstioCertificateResponse))
		}),
	}
}

// TestHonestClientsDuringAttacks attacks the xDS ports in each way that needs no credentials.
// Meanwhile a proxy in plain text, a proxy over TLS and a workload that requests a certificate are
// served in time. Afterwards the memory is released.
func TestHonestClientsDuringAttacks(t *testing.T) {
	longtest.Test(t)
	l := startLaptop(t, func(*Options) {})
	before := heap()
	list := attacks(t)
	for name, attack := range list {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			var running sync.WaitGroup
			attack(attacker{laptop: l, ctx: ctx, running: &running})
			var most uint64
			for end := time.Now().Add(4 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
				most = max(most, heap())
				honest(t, l)
			}
			cancel()
			running.Wait()
			if most > before+attackMemory {
				t.Errorf("the heap grew from %d to %d MB", before>>20, most>>20)
			}
			t.Logf("heap %d MB before, at most %d MB", before>>20, most>>20)
		})
	}
	clear(list)
	l.eventually("memory is released", func() error {
		runtime.GC()
		if now := heap(); now > before+64<<20 {
			return fmt.Errorf("the heap has %d MB, %d MB before the attack", now>>20, before>>20)
		}
		return nil
	})
}

// TestSilentStreamsBlockNoClient is the short variant of TestHonestClientsDuringAttacks: honest
// clients connect while many streams send no request.
func TestSilentStreamsBlockNoClient(t *testing.T) {
	l := startLaptop(t, func(*Options) {})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	a := attacker{laptop: l, ctx: ctx, running: &running}
	a.each(0, 2*time.Millisecond, func() { a.stream(false) })
	for end := time.Now().Add(time.Second); time.Now().Before(end); {
		honest(t, l)
	}
	cancel()
	running.Wait()
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// honest connects the honest clients, and fails the test if one of them takes longer than its
// limit.
func honest(t *testing.T, l *laptop) {
	t.Helper()
	token := l.token("shop", "web", time.Hour, "istio-ca")
	proxy := func(ctx context.Context, secure bool) error {
		conn, err := attacker{laptop: l}.connect(secure)
		if err != nil {
			return err
		}
		defer conn.Close()
		st, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx)
		if err != nil {
			return err
		}
		_ = st.Send(&discoveryv3.DeltaDiscoveryRequest{Node: node("shop", nil), TypeUrl: api.ClusterType}) // Recv returns the status
		_, err = st.Recv()
		return err
	}
	for who, f := range map[string]func(context.Context) error{
		"a proxy in plain text": func(ctx context.Context) error { return proxy(ctx, false) },
		"a proxy over TLS":      func(ctx context.Context) error { return proxy(bearing(ctx, token), true) },
		"a workload": func(ctx context.Context) error {
			_, err := l.certificate(bearing(ctx, token), nil, new(security.IstioCertificateRequest))
			return err
		},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), honestLimit)
		began := time.Now()
		if err := f(ctx); err != nil {
			t.Errorf("%s after %v: %v", who, time.Since(began), err)
		}
		cancel()
	}
}

// TestCallersAreKnownBeforeTheyAreRead: a request to the certificate service is decoded only after
// its sender is authenticated, so an unauthenticated sender of a malformed request gets
// Unauthenticated. A request of an authenticated sender may be as large as a certificate request
// needs.
func TestCallersAreKnownBeforeTheyAreRead(t *testing.T) {
	l := startLaptop(t, func(*Options) {})
	conn, err := attacker{laptop: l}.connect(true)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	call := func(ctx context.Context, method string, body []byte) codes.Code {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		return status.Code(conn.Invoke(ctx, method, body, new(security.IstioCertificateResponse)))
	}
	known := bearing(t.Context(), l.token("shop", "web", time.Hour, "istio-ca"))
	const create = security.IstioCertificateService_CreateCertificate_FullMethodName
	malformed := []byte{0xff, 0xff}
	for name, tt := range map[string]struct {
		ctx    context.Context
		method string
		body   []byte
		want   codes.Code
	}{
		"no credentials, malformed":       {t.Context(), create, malformed, codes.Unauthenticated},
		"no credentials, 15 MiB":          {t.Context(), create, make([]byte, 15<<20), codes.Unauthenticated},
		"authenticated, malformed":        {known, create, malformed, codes.InvalidArgument},
		"authenticated, 2 MiB":            {known, create, make([]byte, 2<<20), codes.ResourceExhausted},
		"authenticated, nulls":            {known, create, encode(t, &security.IstioCertificateRequest{Metadata: nullList(100_000)}), codes.ResourceExhausted},
		"no credentials, reflection":      {t.Context(), "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", malformed, codes.Unauthenticated},
		"authenticated, bad reflection":   {known, "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", malformed, codes.InvalidArgument},
		"no credentials, unknown service": {t.Context(), "/no.such.Service/Method", malformed, codes.Unimplemented},
	} {
		if got := call(tt.ctx, tt.method, tt.body); got != tt.want {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}
