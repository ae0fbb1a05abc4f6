package agent

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/meshpilot/meshpilot/internal/agent/envoy"
	"github.com/meshpilot/meshpilot/internal/base/watch"
)

const (
	// firstRetry is the time before another attempt to replace Envoy, each further one takes twice as long to come;
	// restarts is how many there may be in a row.
	firstRetry = time.Second
	restarts   = 10
	// handoverPoll is how often a new Envoy is asked whether it has taken over.
	handoverPoll = 100 * time.Millisecond
)

// generation is one Envoy of several that follow each other by hot restart: the next one takes the listeners over, and the last
// one ends when its clients are gone or its time is up.
// https://www.envoyproxy.io/docs/envoy/latest/intro/arch_overview/operations/hot_restart
type generation struct {
	process *envoy.Process
	epoch   int
}

// handover is what a new Envoy reports: that it serves.
type handover struct{ epoch int }

// baseIDFile is where the first Envoy writes what tells its kin from other Envoys of the host.
func (o Options) baseIDFile() string { return filepath.Join(o.Config.GetConfigPath(), "base-id") }

// family gives Envoy's arguments for hot restart, nil without it.
func (o Options) family() (*envoy.Family, error) {
	if !o.Environment.HotRestart {
		return nil, nil
	}
	f := &envoy.Family{Epoch: o.epoch, BaseIDFile: o.baseIDFile()}
	if o.epoch > 0 {
		text, err := os.ReadFile(o.baseIDFile())
		if err != nil {
			return nil, fmt.Errorf("hot restart: %w", err)
		}
		if f.BaseID, err = strconv.ParseUint(strings.TrimSpace(string(text)), 10, 32); err != nil {
			return nil, fmt.Errorf("hot restart: %s: %w", o.baseIDFile(), err)
		}
	}
	return f, nil
}

// launch starts an Envoy of an epoch.
func (a *agent) launch(ctx context.Context, epoch int) (*generation, error) {
	o := a.Options
	o.epoch = epoch
	c, err := Prepare(ctx, o)
	if err != nil {
		return nil, err
	}
	if epoch > 0 {
		// A new Envoy that dies of its configuration leaves its kin's shared memory marked: no other one could follow.
		if err := envoy.Validate(ctx, c); err != nil {
			return nil, err
		}
	}
	process, err := envoy.Start(c)
	if err != nil {
		return nil, fmt.Errorf("%w (ProxyConfig.binaryPath)", err)
	}
	g := &generation{process: process, epoch: epoch}
	a.Log.Info("envoy runs", "pid", process.PID())
	go func() {
		<-process.Exited()
		a.exited <- g // there is room for all that may live at a time
	}()
	return g, nil
}

// restart replaces Envoy by a new one, which is given what files say now. The old one serves until then, and goes on if the new
// one does not come to it. One at a time: a further wish waits.
func (a *agent) restart(ctx context.Context) {
	if a.next != nil {
		a.again = true
		return
	}
	a.again = false
	a.readiness.Handover(true)
	g, err := a.launch(ctx, a.current.epoch+1)
	if err != nil {
		a.Log.Error("envoy is not replaced: " + err.Error())
		a.readiness.Handover(false)
		return
	}
	a.next = g
	a.Log.Info("replacing envoy", "epoch", g.epoch)
	go a.awaitHandover(ctx, g)
}

// awaitHandover waits until a new Envoy serves, or is gone.
func (a *agent) awaitHandover(ctx context.Context, g *generation) {
	tick := time.NewTicker(handoverPoll)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-g.process.Exited():
			return
		case <-tick.C:
		}
		asking, cancel := context.WithTimeout(ctx, adminTimeout)
		epoch, err := a.admin.Epoch(asking)
		state := ""
		if err == nil && epoch == g.epoch {
			state, err = a.admin.State(asking)
		}
		cancel()
		if err == nil && state == envoyLive {
			select {
			case a.tookOver <- handover{g.epoch}:
			case <-ctx.Done():
			}
			return
		}
	}
}

// envoyLive is Envoy's own word for serving.
const envoyLive = "LIVE"

// takenOver makes the new Envoy the one that counts.
func (a *agent) takenOver(ctx context.Context, h handover) {
	if a.next == nil || a.next.epoch != h.epoch {
		return
	}
	a.older = append(a.older, a.current)
	a.current, a.next, a.failures = a.next, nil, 0
	a.readiness.Handover(false)
	a.Log.Info("envoy is replaced, the last one drains", "epoch", h.epoch)
	if a.again {
		a.restart(ctx)
	}
}

// gone looks at an Envoy that ended. The error is the agent's: the Envoy that counts ended without being asked to.
func (a *agent) gone(g *generation) error {
	switch g {
	case a.current:
		if a.next != nil { // it was about to be replaced: the new one has nothing to take over, and serves all the same
			a.current, a.next = a.next, nil
			a.readiness.Handover(false)
			return nil
		}
		return a.ended()
	case a.next:
		a.next = nil
		a.failures++
		// Its admin interface is gone with the attempt: it cannot be asked any more how it is until it is replaced.
		a.Log.Error("the new envoy "+g.process.Exit().String()+", the last one serves on", "epoch", g.epoch, "attempts", a.failures)
		if a.failures < restarts {
			time.AfterFunc(firstRetry<<(a.failures-1), request(a.restartNow))
		}
	default:
		for i, o := range a.older {
			if o == g {
				a.older = append(a.older[:i:i], a.older[i+1:]...)
			}
		}
		a.Log.Info("the last envoy has ended", "epoch", g.epoch)
	}
	return nil
}

// processes are all Envoys that run.
func (a *agent) processes() []*envoy.Process {
	var list []*envoy.Process
	for _, g := range append([]*generation{a.current, a.next}, a.older...) {
		if g != nil {
			list = append(list, g.process)
		}
	}
	return list
}

// openRestart has Envoy replaced when the user changes what it starts with.
func (a *agent) openRestart(p *parts) error {
	if !a.Environment.HotRestart {
		return nil
	}
	for _, path := range []string{a.Config.GetCustomConfigFile(), a.Environment.BootstrapOverride} {
		if path == "" {
			continue
		}
		p.run = append(p.run, func(ctx context.Context) error {
			first := true
			watch.File(ctx, path, watch.Options{Settle: a.Environment.Security.FileSettle, Logger: a.Log}, func([]byte) {
				if !first {
					a.Log.Info("what envoy starts with has changed", "file", path)
					request(a.restartNow)()
				}
				first = false
			})
			return nil
		})
	}
	return nil
}
