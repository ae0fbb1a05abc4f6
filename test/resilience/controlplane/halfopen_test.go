package controlplane

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/meshpilot/meshpilot/internal/base/netns"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/test/support/longtest"
	"github.com/meshpilot/meshpilot/test/support/scorecard"
	"github.com/meshpilot/meshpilot/test/support/serving"
	"github.com/meshpilot/meshpilot/test/support/sidecar"
)

// detection is within which a half-open stream must be found: 30 s without a message, and 10 s for
// the answer to a ping.
const detection = 40 * time.Second

// TestHalfOpenStreams drops every packet between proxies on one node and the control plane on
// another, with its default keepalive. Neither side receives a FIN or RST. The control plane must
// find every stream.
func TestHalfOpenStreams(t *testing.T) {
	streams := scorecard.BySize(20, 500, 5000)
	check := scorecard.Check(t, 22, scorecard.Size("streams cut off", streams), scorecard.Size("streams left alone", 1))
	longtest.Test(t)
	netns.Require(t)
	if _, err := exec.LookPath("iptables"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("may not be skipped in CI: ", err)
		}
		t.Skip("iptables is needed to drop packets")
	}
	lab := newNetworkLab(t)
	for i := range streams {
		lab.connect(t, lab.lost, i)
	}
	stays := lab.connect(t, lab.near, streams)
	serving.Eventually(t, patience, "all streams are served", func() error { return lab.connected(streams + 1) })

	began := time.Now()
	lab.drop(t)
	serving.Eventually(t, detection+20*time.Second, "the streams that are cut off are ended",
		func() error { return lab.connected(1) })
	took := time.Since(began)
	check.Measured("the last one was found after", took)
	if took > detection+3*time.Second {
		t.Errorf("the last half-open stream was detected after %v, want at most %v", took, detection)
	}
	if err := stays.Context().Err(); err != nil {
		t.Errorf("the stream of another node ended: %v", err)
	}
	if lab.connected(1) != nil {
		t.Error("the undisturbed stream was closed")
	}
}

// networkLab is a control plane and two nodes with proxies.
type networkLab struct{ plane, lost, near *netns.Node }

func newNetworkLab(t *testing.T) *networkLab {
	t.Helper()
	p, _ := controlPlane(t)
	dir := t.TempDir()
	network, err := netns.New(netns.Options{Dir: filepath.Join(dir, "net")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := network.Close(); err != nil {
			t.Error(err)
		}
	})
	lab := &networkLab{}
	for i, node := range []**netns.Node{&lab.plane, &lab.lost, &lab.near} {
		name := fmt.Sprint("node-", i)
		address := netip.AddrFrom4([4]byte{10, 66, 0, byte(2 + i)})
		if *node, err = network.AddNode(netns.NodeOptions{Name: name, Addrs: []netip.Addr{address}}); err != nil {
			t.Fatal(err)
		}
	}
	config := filepath.Join(dir, "config")
	if err := os.Mkdir(config, 0o755); err != nil {
		t.Fatal(err)
	}
	process, err := lab.plane.Start(netns.Command{
		Path: p.Binary, Dir: dir, Env: []string{"POD_NAME=pilot", "POD_NAMESPACE=istio-system"},
		Args: []string{
			"discovery", "--configDir", config, "--registries=",
			"--meshConfig", filepath.Join(dir, "none"), "--networksConfig", filepath.Join(dir, "none"),
			"--grpcAddr", ":15010", "--httpAddr", ":8080", "--monitoringAddr", ":15014", "--httpsAddr=", "--secureGRPCAddr=", "--ctrlz_port", "0",
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := process.AwaitOK(ctx, "http://127.0.0.1:8080/ready"); err != nil {
		t.Fatal(err)
	}
	return lab
}

type deltaStream = discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesClient

// connect opens a stream from a node, on a connection of its own, and subscribes to clusters. The
// stream ends with the test.
func (l *networkLab) connect(t *testing.T, from *netns.Node, i int) deltaStream {
	t.Helper()
	address := netip.AddrPortFrom(l.plane.Addr(), 15010).String()
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, a string) (net.Conn, error) { return from.Dial(ctx, "tcp", a) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	node := sidecar.Node(fmt.Sprint("proxy-", i), "default", fmt.Sprintf("10.9.%d.%d", i>>8, i&255), nil)
	if err := stream.Send(&discoveryv3.DeltaDiscoveryRequest{Node: node, TypeUrl: api.ClusterType}); err != nil {
		t.Fatal(err)
	}
	response, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	acknowledge := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: api.ClusterType, ResponseNonce: response.Nonce}
	if err := stream.Send(acknowledge); err != nil {
		t.Fatal(err)
	}
	return stream
}

// drop has the kernel drop every packet of the node that is lost, in both directions.
func (l *networkLab) drop(t *testing.T) {
	t.Helper()
	for chain, direction := range map[string]string{"INPUT": "-i", "OUTPUT": "-o"} {
		p, err := l.lost.Start(netns.Command{
			Name: "iptables-" + chain, Path: "iptables", Args: []string{"-w", "-I", chain, "!", direction, "lo", "-j", "DROP"},
		})
		if err == nil {
			err = p.Wait(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

var connectedProxies = regexp.MustCompile(`(?m)^pilot_xds(?:\{[^}]*\})? (\d+)`)

// connected returns an error unless the control plane reports this number of proxies.
func (l *networkLab) connected(want int) error {
	client := l.plane.Client(10 * time.Second)
	defer client.CloseIdleConnections()
	text, err := serving.Ask(context.Background(), client, "http://127.0.0.1:15014/metrics")
	if err != nil {
		return err
	}
	sum := 0
	for _, m := range connectedProxies.FindAllStringSubmatch(text, -1) {
		n, err := strconv.Atoi(m[1])
		if err != nil {
			return err
		}
		sum += n
	}
	if sum != want {
		return fmt.Errorf("%d proxies are connected, want %d", sum, want)
	}
	return nil
}
