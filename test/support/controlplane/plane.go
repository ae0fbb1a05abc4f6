package controlplane

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/discovery"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// Patience bounds every wait for a control plane.
const Patience = time.Minute

// Options returns the options of a control plane that serves plain-text xDS and HTTP, at addresses
// of its own, and nothing else. It has no files: its mesh configuration is that of the ConfigMap,
// if it has a Kubernetes API.
func Options(t testing.TB) discovery.Options {
	t.Helper()
	o := discovery.Defaults()
	o.GRPCAddr, o.HTTPAddr = serving.FreeAddress(t), serving.FreeAddress(t)
	o.SecureGRPCAddr, o.HTTPSAddr, o.MonitoringAddr, o.ControlZPort = "", "", "", 0
	o.MeshConfigFile, o.NetworksConfigFile = "", ""
	return o
}

// Plane is a control plane that runs.
type Plane struct {
	// HTTP, GRPC and Secure are its addresses: of its pages, of xDS in plain text and of xDS over
	// TLS; "" if it does not listen there.
	HTTP, GRPC, Secure string

	t    testing.TB
	log  serving.Log
	stop func()
	done chan struct{} // closed when it has ended
	err  error         // with which it ended, once done
}

// Launch starts a control plane and does not wait for it. It is stopped with the test, at the
// latest.
func Launch(t testing.TB, o discovery.Options) *Plane {
	t.Helper()
	p := &Plane{HTTP: o.HTTPAddr, GRPC: o.GRPCAddr, Secure: o.SecureGRPCAddr, t: t, done: make(chan struct{})}
	o.Logs.Out = &p.log
	if err := o.Validate(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer close(p.done)
		p.err = discovery.Run(ctx, o)
	}()
	p.stop = sync.OnceFunc(func() {
		cancel()
		<-p.done
		if p.err != nil {
			t.Errorf("the control plane ended with %v", p.err)
		}
	})
	t.Cleanup(func() {
		p.stop()
		if t.Failed() {
			t.Logf("the log of control plane %s:\n%s", o.PodName, p.LogText())
		}
	})
	return p
}

// Start starts a control plane, and waits until it is ready.
func Start(t testing.TB, o discovery.Options) *Plane {
	t.Helper()
	p := Launch(t, o)
	p.Eventually("ready", p.Ready)
	return p
}

// Stop stops it as SIGTERM does, and returns when it has ended.
func (p *Plane) Stop() { p.stop() }

// LogText returns its log.
func (p *Plane) LogText() string { return p.log.String() }

// GetPage requests one of its pages, as [serving.Page] does.
func (p *Plane) GetPage(path string) (string, error) { return serving.Page("http://" + p.HTTP + path) }

// Ready returns nil if the control plane reports readiness.
func (p *Plane) Ready() error {
	_, err := p.GetPage("/ready")
	return err
}

// Eventually waits, with Patience, until a check has no error. A control plane that has ended is
// not waited for.
func (p *Plane) Eventually(what string, check func() error) {
	p.t.Helper()
	p.Within(Patience, what, check)
}

// Within is Eventually with a limit of the test's own.
func (p *Plane) Within(limit time.Duration, what string, check func() error) {
	p.t.Helper()
	serving.Eventually(p.t, limit, what, func() error {
		p.t.Helper()
		err := check()
		select {
		case <-p.done:
			if err != nil {
				p.t.Fatalf("%s: the control plane has ended (%v): %v", what, p.err, err)
			}
		default:
		}
		return err
	})
}
