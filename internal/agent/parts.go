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
	"time"

	"golang.org/x/sync/errgroup"
	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/agent/bootstrap"
	"github.com/meshpilot/meshpilot/internal/agent/controlplane"
	"github.com/meshpilot/meshpilot/internal/agent/environment"
	"github.com/meshpilot/meshpilot/internal/agent/envoy"
	"github.com/meshpilot/meshpilot/internal/agent/identity"
	"github.com/meshpilot/meshpilot/internal/agent/probe"
	"github.com/meshpilot/meshpilot/internal/agent/relay"
	"github.com/meshpilot/meshpilot/internal/agent/sds"
	"github.com/meshpilot/meshpilot/internal/agent/secret"
	"github.com/meshpilot/meshpilot/internal/agent/socket"
	"github.com/meshpilot/meshpilot/internal/base/clock"
	"github.com/meshpilot/meshpilot/internal/base/watch"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// Paths as in Istio, relative to the working directory of its images, which is the root directory.
const (
	identitySocketDir = "./var/run/secrets/workload-spiffe-uds"
	credentialsDir    = "./var/run/secrets/workload-spiffe-credentials"
	// mountedCertDir is where certificates of other authorities are mounted.
	mountedCertDir = "./etc/certs"
	// fileSocket is the socket for secrets from files if another server has the workload's
	// identity.
	fileSocket = "./var/run/secrets/credential-uds/files-socket"
	// wasmDir is the directory of cached Wasm modules.
	wasmDir = "./var/lib/istio/data"
)

// parts are the servers and loops beside Envoy, except the status port. All sockets are open before
// Envoy starts.
type parts struct {
	// envoyUser owns the sockets, if it is not nil.
	envoyUser *envoy.User
	// run are the parts' loops.
	run []func(context.Context) error
	// close are called if opening the parts fails.
	close []func() error
	relay *relay.Relay
}

// openParts opens all parts without running them. If one fails, the others are closed and the error
// is returned.
func (a *agent) openParts() (*parts, error) {
	p := &parts{envoyUser: a.envoyUser}
	opens := []func(*parts) error{
		a.openSecrets, a.openDNS, a.openRelay, a.openMonitor, a.watchBootstrapFiles,
	}
	for _, open := range opens {
		if err := open(p); err != nil {
			p.closeAll()
			return nil, err
		}
	}
	return p, nil
}

// closeAll closes everything that the parts have opened. Errors are ignored.
func (p *parts) closeAll() {
	for _, c := range p.close {
		_ = c() // the caller returns the error that led here
	}
}

// startAll runs each part in a goroutine of group, until ctx ends or the part fails.
func (p *parts) startAll(ctx context.Context, group *errgroup.Group) {
	for _, run := range p.run {
		group.Go(func() error { return run(ctx) })
	}
}

// listenUnix opens a Unix socket at path with a file mode, for the user p.envoyUser, and adds it to
// p.close. It returns an error if the socket cannot be opened or its owner cannot be changed.
func (p *parts) listenUnix(path string, mode fs.FileMode) (net.Listener, error) {
	l, err := socket.Listen(path, mode)
	if err != nil {
		return nil, err
	}
	p.close = append(p.close, l.Close)
	return l, p.envoyUser.Own(path)
}

// identitySocket returns the SDS socket of the workload's identity. It is relative to the working
// directory.
func (o Options) identitySocket() string {
	return "./" + filepath.Join(identitySocketDir, o.Environment.Security.Socket)
}

// openSecrets opens the SDS server, the identity's source and the watch of secrets from files, and
// adds them to p. If another server listens at the identity's socket, that serves the identity.
// This server then serves only files, at fileSocket, which is stored in a.fileSocket. It returns an
// error if a custom socket (WORKLOAD_IDENTITY_SOCKET_FILE) has no server.
func (a *agent) openSecrets(p *parts) error {
	store := secret.NewStore()
	a.metrics.RegisterExpiries(store.Expiries)
	files := &secret.Files{
		Store: store, CRLPaths: crlFiles(), Log: a.scopeLogger("cache"), OnFailure: a.metrics.RecordFileSecretFailure,
		Watch: watch.Options{Settle: a.Environment.Security.FileSettle, Logger: a.Log},
	}
	path := a.identitySocket()
	if socket.IsServed(path) {
		a.Log.Info("using the workload identity of another SDS server", "socket", path)
		path, a.fileSocket = fileSocket, fileSocket
	} else if a.Environment.Security.Socket != environment.DefaultSocket {
		return fmt.Errorf("environment variable WORKLOAD_IDENTITY_SOCKET_FILE: no server listens on %s", path)
	}
	l, err := p.listenUnix(path, socket.OwnerAndGroup)
	if err != nil {
		return err
	}
	server := sds.New(sds.Options{
		Store: store, WatchIfFile: files.WatchIfFile, Log: a.scopeLogger("sds"), Recovery: a.recovery,
	})
	var named []secret.FileSecret
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

// crlFiles returns the possible paths of revocation lists: beside the roots, where the control
// plane puts them, and where Istio's injector mounts its own.
func crlFiles() []string {
	return []string{"./var/run/secrets/istio/ca-crl.pem", "./var/run/secrets/istio/crl/ca-crl.pem"}
}

// openIdentity returns the files of the workload's certificate if identityFiles finds them.
// Otherwise it sets a.renewer, which requests certificates of the authority, adds it to p and
// applies the trust bundle of a.Config. It does neither if FileMounted is set (the control plane
// then names the files) or there is no authority. It returns an error if the authority or the trust
// bundle is invalid.
func (a *agent) openIdentity(p *parts, store *secret.Store) ([]secret.FileSecret, error) {
	if named := a.identityFiles(); named != nil {
		a.Log.Info("using the workload certificate in files", "certificate", named[0].Chain)
		return named, nil
	}
	if a.Environment.Security.FileMounted {
		return nil, nil // the control plane configures their names
	}
	target, there, err := controlplane.AuthorityTarget(a.Config, a.Environment, a.Node.Metadata.ClusterID)
	if err != nil || !there {
		return nil, err
	}
	a.renewer = a.newRenewer(target, store)
	p.run = append(p.run, a.renewer.Run)
	return nil, a.applyTrustBundle(a.Config)
}

// identityFiles returns the files of a workload certificate that another program provides. It looks
// in credentialsDir, then in mountedCertDir, and takes the first that has chain, key and roots; if
// none has, it returns nil. It skips OutputDir, which the agent writes, and ProvisionedDir.
func (o Options) identityFiles() []secret.FileSecret {
	s := o.Environment.Security
	own := []string{filepath.Clean(s.OutputDir), filepath.Clean(s.ProvisionedDir)}
	for _, dir := range []string{credentialsDir, mountedCertDir} {
		if slices.Contains(own, filepath.Clean(dir)) {
			continue
		}
		chain, key := filepath.Join(dir, "cert-chain.pem"), filepath.Join(dir, "key.pem")
		roots := filepath.Join(dir, "root-cert.pem")
		if existingFile(chain) != "" && existingFile(key) != "" && existingFile(roots) != "" {
			return []secret.FileSecret{
				{Name: secret.WorkloadName, Chain: chain, Key: key},
				{Name: secret.RootsName, Roots: roots},
			}
		}
	}
	return nil
}

// HasIdentity reports whether the workload gets a certificate: from an authority, from files, or
// from another SDS server that serves its socket now. Without the address of an authority, the
// control plane is the authority unless controlPlaneAuthPolicy is NONE.
func HasIdentity(config *meshconfig.ProxyConfig, env environment.Environment) bool {
	o := Options{Config: config, Environment: env}
	return env.Security.CAAddress != "" || config.GetControlPlaneAuthPolicy() != meshconfig.AuthenticationPolicy_NONE ||
		o.identityFiles() != nil || socket.IsServed(o.identitySocket())
}

// HasSeparateFileServer reports whether another SDS server listens now at the socket of the
// workload's identity. The agent then serves only secrets from files, at a socket and with an Envoy
// cluster of their own.
func HasSeparateFileServer(env environment.Environment) bool {
	return socket.IsServed(Options{Environment: env}.identitySocket())
}

// HasCredentialServer reports whether an SDS server beside the proxy listens now at
// mesh.CredentialServerSocket. The control plane sends the cluster for it only to proxies whose
// agent reports it.
func HasCredentialServer() bool { return socket.IsServed(mesh.CredentialServerSocket) }

// existingFile returns path if it is a file, otherwise "". A directory is no file.
func existingFile(path string) string {
	if info, err := os.Stat(path); err != nil || info.IsDir() {
		return ""
	}
	return path
}

// newRenewer returns a renewer, not yet running, of the workload's certificate. Without
// SERVICE_ACCOUNT it logs a warning and uses "default". If OUTPUT_CERTS is set, it restricts the
// mode of a key that is already there, and the renewer writes each new certificate there. Failures
// of both are only logged.
func (a *agent) newRenewer(target controlplane.Target, store *secret.Store) *identity.Renewer {
	s, m := a.Environment.Security, a.Node.Metadata
	if m.ServiceAccount == "" {
		a.Log.Warn("environment variable SERVICE_ACCOUNT is not set, " +
			"requesting a certificate for the service account default")
		m.ServiceAccount = "default"
	}
	authority := identity.Authority{Target: target, Signer: s.CertSigner}
	o := identity.Options{
		ID:       identity.SPIFFEID(s.TrustDomain, m.Namespace, m.ServiceAccount),
		Keys:     identity.KeyOptions{RSABits: s.RSABits, Curve: s.Curve, PKCS8: s.PKCS8},
		Lifetime: s.Lifetime, GraceRatio: s.GraceRatio, GraceJitter: s.GraceJitter,
		Sign: authority.Sign, Store: store, Clock: clock.System{}, Random: rand.Float64,
		OnSigned: a.metrics.RecordRequest, Log: a.scopeLogger("cache"),
	}
	if s.OutputDir != "" {
		if err := identity.RestrictKey(s.OutputDir, a.outputKeyMode()); err != nil {
			a.Log.Error("OUTPUT_CERTS: cannot restrict access to the private key", "dir", s.OutputDir, "error", err)
		}
		o.OnUpdate = func(chain, key, roots []byte) {
			err := identity.WriteFiles(s.OutputDir, a.outputKeyMode(), time.Now(), chain, key, roots)
			if err != nil {
				a.Log.Error("OUTPUT_CERTS: cannot write the new certificate, the proxy uses it nevertheless",
					"dir", s.OutputDir, "error", err)
			}
		}
	}
	return identity.NewRenewer(o)
}

// outputKeyMode returns the file mode of the private key in OUTPUT_CERTS, as
// MESHPILOT_OUTPUT_KEY_READERS selects. If that is not set, only the agent's user may read the key.
// With GRPC_XDS_BOOTSTRAP its group may too, because the application there runs as another user.
func (a *agent) outputKeyMode() identity.KeyMode {
	switch r := a.Environment.Security.OutputReaders; {
	case r == environment.ReadersAll:
		return identity.AllRead
	case r == environment.ReadersGroup, r == "" && a.Environment.XDS.GRPCBootstrap != "":
		return identity.GroupReads
	default:
		return identity.OwnerReads
	}
}

// openMonitor adds to p a loop that probes the application and reports changes of its health to the
// control plane through the relay. It does nothing without ProxyConfig.readinessProbe or without
// the xDS proxy. It returns an error if the probe is invalid.
func (a *agent) openMonitor(p *parts) error {
	readiness := a.Config.GetReadinessProbe()
	if readiness == nil || p.relay == nil {
		return nil
	}
	monitor, err := probe.ParseReadinessProbe(readiness)
	if err != nil {
		return fmt.Errorf("proxy configuration field %q: %w", "readinessProbe", err)
	}
	monitor.Prober, monitor.CheckProxy = a.newProber(), a.readiness.Check
	monitor.OnChange, monitor.Log = p.relay.SetHealth, a.scopeLogger("healthcheck")
	p.run = append(p.run, monitor.Run)
	return nil
}

// newProber returns a prober of the application at the workload's first address, or on loopback if
// Environment.ProbeLocalhost is set.
func (o Options) newProber() *probe.Prober {
	at := o.Node.Addresses[0]
	if o.Environment.ProbeLocalhost {
		at = bootstrap.Localhost(o.Node.Addresses)
	}
	return probe.NewProber(at)
}
