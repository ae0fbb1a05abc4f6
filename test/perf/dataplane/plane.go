package dataplane

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/meshpilot/meshpilot/internal/agent/socket"
	"github.com/meshpilot/meshpilot/test/perf/target"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// readyTime bounds the start of a control plane and of a sidecar.
const readyTime = 5 * time.Minute

// plane is a running control plane.
type plane struct {
	variant  Variant
	settings target.Settings
	process  *target.Process
	log      *os.File
	// relay carries connections of sidecars to the control plane: sidecars are in a network of their
	// own. sent counts the bytes that it has carried to them.
	relay  *serving.Forwarder
	socket string
	sent   atomic.Int64
}

// configDir returns the directory of the objects of a control plane with its files in dir.
func configDir(dir string) string { return filepath.Join(dir, "config") }

// startPlane starts a control plane with its files in dir, and waits until it is ready.
func (o Options) startPlane(ctx context.Context, v Variant, dir string) (*plane, error) {
	p := &plane{variant: v, settings: target.Settings{
		Dir: dir, ConfigDir: configDir(dir), Kubeconfig: o.kubeconfig(),
		// The default of Istio's charts, and of meshpilot.
		MeshConfig: "defaultProviders: {metrics: [prometheus]}\n",
		Environment: []string{
			// Filters that only Istio's Envoy has.
			"PILOT_ENABLE_METADATA_EXCHANGE=false", "PILOT_ENABLE_ALPN_FILTER=false",
			// Envoy subscribes to the endpoints of 20,000 clusters by one request of 1.5 MB. Proxies with TLS, unlike
			// these, may send 16 MiB (ADR 32).
			"MESHPILOT_XDS_SMALL_REQUEST_BYTES=16777216",
		},
	}}
	var err error
	for _, address := range []*string{&p.settings.XDS, &p.settings.HTTP, &p.settings.Monitoring} {
		if *address, err = serving.ReserveAddress(); err != nil {
			return nil, err
		}
	}
	if p.log, err = os.Create(filepath.Join(dir, "control-plane.log")); err != nil {
		return nil, err
	}
	if p.process, err = v.Plane.Start(ctx, p.settings, p.log); err == nil {
		err = p.awaitReady(ctx)
	}
	if err == nil {
		p.socket = filepath.Join(dir, "xds")
		err = p.startRelay()
	}
	if err != nil {
		p.stop()
		text, _ := os.ReadFile(p.log.Name()) // for a person to read
		return nil, fmt.Errorf("%w; the end of its output:\n%s", err, text[max(0, len(text)-4<<10):])
	}
	return p, nil
}

func (p *plane) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for {
		_, err := serving.Ask(ctx, client, "http://"+p.settings.HTTP+"/ready")
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s does not become ready: %w", p.variant.Plane.Kind, err)
		case <-p.process.Exited():
			return fmt.Errorf("%s ended", p.variant.Plane.Kind)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (p *plane) startRelay() error {
	l, err := socket.Listen(p.socket, socket.OwnerAndGroup)
	if err != nil {
		return err
	}
	p.relay = serving.Forward(l, p.dial)
	return nil
}

// dial connects to the control plane and counts what it sends.
func (p *plane) dial(ctx context.Context) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", p.settings.XDS)
	if err != nil {
		return nil, err
	}
	return serving.CountReads(c, &p.sent), nil
}

// stop ends the control plane and its relay.
func (p *plane) stop() {
	if p.relay != nil {
		_ = p.relay.Close() // nothing else can be done about its listener
	}
	if p.process != nil {
		p.process.Stop(syscall.SIGTERM)
	}
	p.log.Close()
}
