package dataplane

import (
	"context"
	"fmt"
	"net/netip"
	"path/filepath"
	"strconv"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshpilot/meshpilot/internal/agent/bootstrap"
	"github.com/meshpilot/meshpilot/internal/agent/environment"
	"github.com/meshpilot/meshpilot/internal/agent/node"
	"github.com/meshpilot/meshpilot/internal/agent/proxyconfig"
	"github.com/meshpilot/meshpilot/internal/base/netns"
	"github.com/meshpilot/meshpilot/internal/base/obs"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/test/perf/workload"
)

// adminURL is the admin interface of a sidecar, in its network.
const adminURL = "http://127.0.0.1:15000"

// sidecar describes a measured Envoy.
type sidecar struct {
	name    string
	address netip.Addr
	// discovery and identity are the Unix sockets of the control plane and of the certificates.
	discovery, identity string
	onDemand            bool
	// mark is the mark of its connections, by which capture leaves them alone; 0: nothing is captured.
	mark uint32
}

// newBootstrap returns the bootstrap that pilot-agent writes for such a sidecar.
func (s sidecar) newBootstrap() (*bootstrapv3.Bootstrap, error) {
	n, err := s.newNode()
	if err != nil {
		return nil, err
	}
	config := proxyconfig.DefaultConfig()
	config.Concurrency = wrapperspb.Int32(1)
	b, _, err := bootstrap.Build(bootstrap.Input{
		Node: n, Config: config, StatusPort: 15021, PrometheusPort: 15090,
		DiscoverySocket: s.discovery, IdentitySocket: s.identity, SocketMark: s.mark,
	})
	return b, err
}

// newNode returns the xDS node of the sidecar.
func (s sidecar) newNode() (node.Node, error) {
	env, err := environment.Parse(environment.Variables{
		"POD_NAME": s.name, "POD_NAMESPACE": workload.SharedNamespace, "SERVICE_ACCOUNT": s.name,
		"INSTANCE_IP": s.address.String(), "INSTANCE_IPS": s.address.String(),
		"ISTIO_META_CLUSTER_ID": "Kubernetes", "ISTIO_META_WORKLOAD_NAME": s.name,
		"MESHPILOT_ON_DEMAND":   strconv.FormatBool(s.onDemand),
		"MESHPILOT_SOCKET_MARK": strconv.FormatUint(uint64(s.mark), 10),
		"ISTIO_METAJSON_LABELS": fmt.Sprintf(`{"app": %q, "security.istio.io/tlsMode": "istio"}`, s.name),
	})
	if err != nil {
		return node.Node{}, err
	}
	return node.Build(node.Input{
		Type: mesh.SidecarProxy, Environment: env, Config: proxyconfig.DefaultConfig(),
		IstioLevel: obs.IstioLevel, Version: obs.Version, HasIdentity: true,
	})
}

// start starts an Envoy in a network node. It is ready when its admin interface reports so.
func (o Options) start(n *netns.Node, b *bootstrapv3.Bootstrap) (*netns.Process, error) {
	text, err := bootstrap.EncodeJSON(b)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(n.Dir(), bootstrap.FileName)
	if err := bootstrap.WriteFile(file, text, bootstrap.OwnerOnly); err != nil {
		return nil, err
	}
	return n.Start(netns.Command{Name: "envoy", Path: o.Envoy, Args: []string{
		"--config-path", file, "--disable-hot-restart", "--concurrency", "1", "--log-level", "warn", "--skip-deprecated-logs",
	}})
}

// awaitReady waits until a sidecar has its configuration and listens.
func awaitReady(ctx context.Context, p *netns.Process) error {
	ctx, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	return p.AwaitOK(ctx, adminURL+"/ready")
}
