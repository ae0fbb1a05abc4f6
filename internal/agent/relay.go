package agent

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strconv"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"github.com/meshpilot/meshpilot/internal/agent/bootstrap"
	"github.com/meshpilot/meshpilot/internal/agent/controlplane"
	"github.com/meshpilot/meshpilot/internal/agent/outbound"
	"github.com/meshpilot/meshpilot/internal/agent/relay"
	"github.com/meshpilot/meshpilot/internal/agent/socket"
	"github.com/meshpilot/meshpilot/internal/agent/wasm"
)

// openRelay opens the xDS proxy, sets p.relay, and adds the xDS proxy and its debug server to p. It
// also writes the bootstrap of proxyless gRPC if that is configured. It does nothing if Envoy
// connects to the control plane itself. The socket is open to all users if gRPC is configured,
// otherwise to owner and group. An invalid control plane address, socket or gRPC bootstrap is an
// error; a debug server that cannot be opened is only logged.
func (a *agent) openRelay(p *parts) error {
	if !a.Environment.XDS.ViaAgent {
		return nil
	}
	target, err := controlplane.DiscoveryTarget(a.Config, a.Environment, a.Node.Metadata.ClusterID)
	if err != nil {
		return err
	}
	mode := socket.OwnerAndGroup
	if a.Environment.XDS.GRPCBootstrap != "" {
		mode = socket.Everyone // the application runs as another user
	}
	l, err := p.listenUnix(a.discoverySocket(), mode)
	if err != nil {
		return fmt.Errorf("%w (ProxyConfig.configPath)", err)
	}
	if err := a.writeGRPCBootstrap(); err != nil {
		return err
	}
	p.relay = relay.New(relay.Options{
		Recovery: a.recovery,
		Target:   target, Streams: a.maxStreams(), Subscriptions: a.subscriptions(), Convert: a.openWasmCache(p),
		Metrics: relay.NewMetrics(a.metrics.Registerer()), Log: a.scopeLogger("xdsproxy"),
	})
	p.run = append(p.run, func(ctx context.Context) error { return p.relay.Serve(ctx, l) })
	a.openDebugServer(p)
	return nil
}

// openWasmCache returns the convert function of a new cache of Wasm modules, and adds the cache's
// loop to p. It returns nil if Envoy fetches modules itself.
func (a *agent) openWasmCache(p *parts) func(*discoveryv3.Resource) (func(context.Context) error, error) {
	if !a.Environment.XDS.ConvertWasm {
		return nil
	}
	w := a.Environment.Wasm
	cache := wasm.NewCache(wasm.Options{
		Dir: wasmDir, Expiry: w.Expiry, PurgeInterval: w.PurgeInterval, Retries: w.Retries, Timeout: w.Timeout,
		InsecureRegistries: w.InsecureRegistries,
		Dialer:             outbound.NewDialer(a.Environment.SocketMark),
		Own:                a.envoyUser.Own,
		Metrics:            wasm.NewMetrics(a.metrics.Registerer()),
		Log:                a.scopeLogger("wasm"),
	})
	p.run = append(p.run, cache.Run)
	return cache.Convert
}

// openDebugServer opens the port for debug requests to the control plane. A failure is only logged,
// because the proxy works without it. Port 0 disables it. It listens on loopback only, and is
// closed with the other parts. p.relay must be set.
func (a *agent) openDebugServer(p *parts) {
	number := a.Environment.XDS.DebugPort
	if number == 0 {
		return
	}
	address := net.JoinHostPort(bootstrap.Localhost(a.Node.Addresses).String(), strconv.Itoa(int(number)))
	l, err := net.Listen("tcp", address)
	if err != nil {
		a.Log.Warn("cannot listen for debug requests, continuing without (PROXY_XDS_DEBUG_VIA_AGENT_PORT)",
			"error", err)
		return
	}
	p.close = append(p.close, l.Close)
	p.run = append(p.run, func(ctx context.Context) error { return p.relay.ServeDebug(ctx, l) })
}

// writeGRPCBootstrap writes the bootstrap of proxyless gRPC applications beside the agent, readable
// by all users, because applications run as other users. It does nothing if GRPC_XDS_BOOTSTRAP is
// not set. An error of writing names the variable.
func (a *agent) writeGRPCBootstrap() error {
	path := a.Environment.XDS.GRPCBootstrap
	if path == "" {
		return nil
	}
	body, err := bootstrap.BuildGRPC(bootstrap.GRPCInput{
		Node: a.Node, DiscoverySocket: a.discoverySocket(), CertificateDir: a.Environment.Security.OutputDir,
	})
	if err != nil {
		return err
	}
	if err := bootstrap.WriteFile(path, body, bootstrap.WorldReadable); err != nil {
		return fmt.Errorf("environment variable GRPC_XDS_BOOTSTRAP: %w", err)
	}
	return nil
}

// maxGRPCStreams bounds the xDS streams of gRPC clients beside the agent. Each channel to a target
// has one.
const maxGRPCStreams = 100

// maxStreams returns the maximum number of concurrent xDS streams: maxGRPCStreams if gRPC clients
// are configured, 2 with hot restart (the old and the new Envoy), otherwise 1.
func (a *agent) maxStreams() int {
	switch {
	case a.Environment.XDS.GRPCBootstrap != "":
		return maxGRPCStreams
	case a.Environment.HotRestart:
		return 2 // during a hot restart
	default:
		return 1
	}
}

// discoverySocket returns the socket of the xDS proxy, which is XDS in ProxyConfig.configPath. It
// returns "" if Envoy connects to the control plane itself.
func (o Options) discoverySocket() string {
	if !o.Environment.XDS.ViaAgent {
		return ""
	}
	return filepath.Join(o.Config.GetConfigPath(), "XDS")
}
