package agent

import (
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"golang.org/x/sync/errgroup"
	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/agent/bootstrap"
	"github.com/meshpilot/meshpilot/internal/agent/controlplane"
	"github.com/meshpilot/meshpilot/internal/agent/environment"
	"github.com/meshpilot/meshpilot/internal/agent/identity"
	"github.com/meshpilot/meshpilot/internal/agent/outbound"
	"github.com/meshpilot/meshpilot/internal/agent/probe"
	"github.com/meshpilot/meshpilot/internal/agent/relay"
	"github.com/meshpilot/meshpilot/internal/agent/sds"
	"github.com/meshpilot/meshpilot/internal/agent/secret"
	"github.com/meshpilot/meshpilot/internal/agent/socket"
	"github.com/meshpilot/meshpilot/internal/agent/wasm"
	"github.com/meshpilot/meshpilot/internal/base/watch"
)

// Paths that Istio's users know, relative to the working directory, which in Istio's images is the root directory.
const (
	identitySockets = "./var/run/secrets/workload-spiffe-uds"
	credentials     = "./var/run/secrets/workload-spiffe-credentials"
	// mounted is where certificates are that other authorities mount into pods.
	mounted = "./etc/certs"
	// fileSocket is where files are served if another server has the workload's identity.
	fileSocket = "./var/run/secrets/credential-uds/files-socket"
	// modules is where Wasm modules are kept.
	modules = "./var/lib/istio/data"
)

// parts are what runs beside Envoy, besides the status port: all that it may ask for is served before it starts.
type parts struct {
	// run are the parts' loops.
	run []func(context.Context) error
	// close gives back what is open, if it comes to nothing.
	close []func() error
	relay *relay.Relay
}

// open makes the parts. Nothing runs yet.
func (a *agent) open() (*parts, error) {
	p := &parts{}
	for _, open := range []func(*parts) error{a.openSecrets, a.openNames, a.openRelay, a.openMonitor, a.openRestart} {
		if err := open(p); err != nil {
			p.giveUp()
			return nil, err
		}
	}
	return p, nil
}

func (p *parts) giveUp() {
	for _, c := range p.close {
		_ = c() // what matters is the error that led here
	}
}

// start runs the parts in the group.
func (p *parts) start(ctx context.Context, group *errgroup.Group) {
	for _, run := range p.run {
		group.Go(func() error { return run(ctx) })
	}
}

// listen opens a Unix socket that is closed if the parts come to nothing.
func (p *parts) listen(path string, who fs.FileMode) (net.Listener, error) {
	l, err := socket.Listen(path, who)
	if err == nil {
		p.close = append(p.close, l.Close)
	}
	return l, err
}

// identitySocket is the socket that Envoy gets the workload's identity from.
func (o Options) identitySocket() string {
	return "./" + filepath.Join(identitySockets, o.Environment.Security.Socket)
}

// openSecrets serves certificates: of the authority, or of files. Where another server has the workload's socket, that one is
// used, and only files are served here.
func (a *agent) openSecrets(p *parts) error {
	store := secret.NewStore()
	a.metrics.Expiries(store.Expiries)
	files := &secret.Files{
		Store: store, Revoked: revokedFiles(), Log: a.scope("cache"), Failed: a.metrics.FileSecretFailed,
		Watch: watch.Options{Settle: a.Environment.Security.FileSettle, Logger: a.Log},
	}
	path := a.identitySocket()
	if socket.Live(path) {
		a.Log.Info("another server has the workload's identity", "socket", path)
		path, a.fileSocket = fileSocket, fileSocket
	} else if a.Environment.Security.Socket != environment.DefaultSocket {
		return fmt.Errorf("environment variable WORKLOAD_IDENTITY_SOCKET_FILE: nobody serves %s", path)
	}
	l, err := p.listen(path, socket.Ours)
	if err != nil {
		return err
	}
	server := sds.New(sds.Options{Store: store, Want: files.Want, Log: a.scope("sds"), Recovery: a.recovery})
	var named []secret.Named
	if a.fileSocket == "" {
		if named, err = a.openIdentity(p, store); err != nil {
			return err
		}
	}
	p.run = append(p.run,
		func(ctx context.Context) error { return server.Serve(ctx, l) },
		func(ctx context.Context) error { return files.Run(ctx, named...) })
	return nil
}

// revokedFiles are where lists may be of what the mesh's authorities revoked: beside the roots, where our control plane puts them, and
// where Istio's injection mounts its own.
func revokedFiles() []string {
	return []string{"./var/run/secrets/istio/ca-crl.pem", "./var/run/secrets/istio/crl/ca-crl.pem"}
}

// openIdentity finds where the workload's certificate comes from: files, which are given, or the authority.
func (a *agent) openIdentity(p *parts, store *secret.Store) ([]secret.Named, error) {
	if named := a.identityFiles(); named != nil {
		a.Log.Info("the workload's certificate is in files", "certificate", named[0].Chain)
		return named, nil
	}
	if a.Environment.Security.FileMounted {
		return nil, nil // the control plane knows their names
	}
	target, there, err := controlplane.Authority(a.Config, a.Environment, a.Node.Metadata.ClusterID)
	if err != nil || !there {
		return nil, err
	}
	a.renewer = a.newRenewer(target, store)
	p.run = append(p.run, a.renewer.Run)
	return nil, a.trust(a.Config)
}

// identityFiles are the files with the workload's certificate, where somebody else brings it; nil if nobody does. What the agent
// itself writes for others, and starts with again, is not such.
func (o Options) identityFiles() []secret.Named {
	own := []string{filepath.Clean(o.Environment.Security.Output), filepath.Clean(o.Environment.Security.Provisioned)}
	for _, dir := range []string{credentials, mounted} {
		if slices.Contains(own, filepath.Clean(dir)) {
			continue
		}
		chain, key, roots := filepath.Join(dir, "cert-chain.pem"), filepath.Join(dir, "key.pem"), filepath.Join(dir, "root-cert.pem")
		if existing(chain) != "" && existing(key) != "" && existing(roots) != "" {
			return []secret.Named{{Name: secret.Workload, Chain: chain, Key: key}, {Name: secret.Roots, Roots: roots}}
		}
	}
	return nil
}

// HasIdentity says whether somebody gives the workload a certificate: an authority, files, or another server beside Envoy.
func HasIdentity(config *meshconfig.ProxyConfig, env environment.Environment) bool {
	o := Options{Config: config, Environment: env}
	return env.Security.CAAddress != "" || config.GetControlPlaneAuthPolicy() != meshconfig.AuthenticationPolicy_NONE ||
		o.identityFiles() != nil || socket.Live(o.identitySocket())
}

// ServesFilesApart reports whether another server has the workload's identity, so that the agent serves only secrets that are files,
// at a socket and by a cluster of their own.
func ServesFilesApart(env environment.Environment) bool {
	return socket.Live(Options{Environment: env}.identitySocket())
}

// existing gives a path if there is a file.
func existing(path string) string {
	if info, err := os.Stat(path); err != nil || info.IsDir() {
		return ""
	}
	return path
}

func (a *agent) newRenewer(target controlplane.Target, store *secret.Store) *identity.Renewer {
	s, m := a.Environment.Security, a.Node.Metadata
	if m.ServiceAccount == "" {
		a.Log.Warn("environment variable SERVICE_ACCOUNT is not set: the certificate is asked for as that of the account default")
		m.ServiceAccount = "default"
	}
	authority := identity.Authority{Target: target, Signer: s.CertSigner}
	o := identity.Options{
		Name:     identity.Name(s.TrustDomain, m.Namespace, m.ServiceAccount),
		Keys:     identity.KeyOptions{RSABits: s.RSABits, Curve: s.Curve, PKCS8: s.PKCS8},
		Lifetime: s.Lifetime, GraceRatio: s.GraceRatio, GraceJitter: s.GraceJitter,
		Sign: authority.Sign, Store: store, Clock: watch.SystemClock{}, Random: rand.Float64, Asked: a.metrics.Asked, Log: a.scope("cache"),
	}
	if s.Output != "" {
		if err := identity.RestrictKey(s.Output, a.readers()); err != nil {
			a.Log.Error("OUTPUT_CERTS: other users may read the private key", "dir", s.Output, "err", err)
		}
		o.Written = func(chain, key, roots []byte) {
			if err := identity.Output(s.Output, a.readers(), time.Now(), chain, key, roots); err != nil {
				a.Log.Error("OUTPUT_CERTS: "+err.Error()+"; the proxy has the new certificate all the same", "dir", s.Output)
			}
		}
	}
	return identity.NewRenewer(o)
}

// readers returns who may read the private key in OUTPUT_CERTS: the agent's user, unless MESHPILOT_OUTPUT_KEY_READERS says otherwise. The
// application of the template for gRPC is another user of the same group.
func (a *agent) readers() identity.Readers {
	switch r := a.Environment.Security.OutputReaders; {
	case r == environment.ReadersAll:
		return identity.Everybody
	case r == environment.ReadersGroup, r == "" && a.Environment.XDS.GRPCBootstrap != "":
		return identity.Group
	default:
		return identity.Owner
	}
}

// openRelay has Envoy's ADS stream come to the agent.
func (a *agent) openRelay(p *parts) error {
	if !a.Environment.XDS.ViaAgent {
		return nil
	}
	target, err := controlplane.Discovery(a.Config, a.Environment, a.Node.Metadata.ClusterID)
	if err != nil {
		return err
	}
	who := socket.Ours
	if a.Environment.XDS.GRPCBootstrap != "" {
		who = socket.Everyone // the application is another user
	}
	l, err := p.listen(a.discoverySocket(), who)
	if err != nil {
		return fmt.Errorf("%w (ProxyConfig.configPath)", err)
	}
	if err := a.writeGRPCBootstrap(); err != nil {
		return err
	}
	p.relay = relay.New(relay.Options{
		Recovery: a.recovery,
		Target:   target, Streams: a.streams(), Own: a.ownTypes(), Convert: a.openModules(p),
		Metrics: relay.NewMetrics(a.metrics.Registerer()), Log: a.scope("xdsproxy"),
	})
	p.run = append(p.run, func(ctx context.Context) error { return p.relay.Serve(ctx, l) })
	a.openQuestions(p)
	return nil
}

// openModules has Wasm modules of extensions fetched; nil leaves that to Envoy.
func (a *agent) openModules(p *parts) func(context.Context, *discoveryv3.Resource) error {
	if !a.Environment.XDS.ConvertWasm {
		return nil
	}
	w := a.Environment.Wasm
	cache := wasm.NewCache(wasm.Options{
		Dir: modules, Expiry: w.Expiry, Purge: w.Purge, Retries: w.Retries, Timeout: w.Timeout, Insecure: w.Insecure,
		Dialer: outbound.Dialer(a.Environment.SocketMark), Metrics: wasm.NewMetrics(a.metrics.Registerer()), Log: a.scope("wasm"),
	})
	p.run = append(p.run, cache.Run)
	return cache.Convert
}

// openQuestions passes on what people beside the proxy ask the control plane. A proxy is of use without that.
func (a *agent) openQuestions(p *parts) {
	number := a.Environment.XDS.DebugPort
	if number == 0 {
		return
	}
	l, err := net.Listen("tcp", net.JoinHostPort(bootstrap.Localhost(a.Node.Addresses).String(), strconv.Itoa(int(number))))
	if err != nil {
		a.Log.Warn("no debug pages of the control plane (PROXY_XDS_DEBUG_VIA_AGENT_PORT)", "error", err)
		return
	}
	p.close = append(p.close, l.Close)
	p.run = append(p.run, func(ctx context.Context) error { return p.relay.ServeQuestions(ctx, l) })
}

// writeGRPCBootstrap writes the bootstrap of gRPC applications beside the agent. It does nothing if GRPC_XDS_BOOTSTRAP is not
// set. All users may read the file: applications run as users of their own.
func (a *agent) writeGRPCBootstrap() error {
	path := a.Environment.XDS.GRPCBootstrap
	if path == "" {
		return nil
	}
	body, err := bootstrap.GRPC(bootstrap.GRPCInput{
		Node: a.Node, DiscoverySocket: a.discoverySocket(), CertificateDir: a.Environment.Security.Output,
	})
	if err != nil {
		return err
	}
	if err := bootstrap.WriteFile(path, body, bootstrap.Everyone); err != nil {
		return fmt.Errorf("environment variable GRPC_XDS_BOOTSTRAP: %w", err)
	}
	return nil
}

// maxClients is how many streams gRPC clients beside the agent may have: each channel to a target has one.
const maxClients = 100

// streams is how many streams of configuration there may be at a time: Envoy's and, where they are expected, those of gRPC
// clients.
func (a *agent) streams() int {
	switch {
	case a.Environment.XDS.GRPCBootstrap != "":
		return maxClients
	case a.Environment.HotRestart:
		return 2 // while one Envoy takes over from another
	default:
		return 1
	}
}

// openMonitor has the control plane told how the workload is, where nobody else would.
func (a *agent) openMonitor(p *parts) error {
	readiness := a.Config.GetReadinessProbe()
	if readiness == nil || p.relay == nil {
		return nil
	}
	monitor, err := probe.FromReadiness(readiness)
	if err != nil {
		return fmt.Errorf("proxy configuration field %q: %w", "readinessProbe", err)
	}
	monitor.Prober, monitor.Proxy, monitor.Tell, monitor.Log = a.prober(), a.readiness.Check, p.relay.SetHealth, a.scope("healthcheck")
	p.run = append(p.run, monitor.Run)
	return nil
}

// prober asks the application how it is.
func (o Options) prober() *probe.Prober {
	at := o.Node.Addresses[0]
	if o.Environment.ProbeLocalhost {
		at = bootstrap.Localhost(o.Node.Addresses)
	}
	return probe.NewProber(at)
}

// discoverySocket is the socket that Envoy gets its configuration from, "" if it asks the control plane itself.
func (o Options) discoverySocket() string {
	if !o.Environment.XDS.ViaAgent {
		return ""
	}
	return filepath.Join(o.Config.GetConfigPath(), "XDS")
}
