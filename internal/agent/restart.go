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
	// minBackoff is the delay before the first retry of a failed replacement of Envoy; it doubles
	// with each further one. maxAttempts bounds consecutive attempts.
	minBackoff  = time.Second
	maxAttempts = 10
	// handoverPoll is how often a new Envoy is queried whether it has taken over.
	handoverPoll = 100 * time.Millisecond
)

// envoyRun is one of several Envoys that replace each other by hot restart. The next one takes over
// the listeners, and the previous one exits when its connections are closed or the drain time has
// passed.
// https://www.envoyproxy.io/docs/envoy/latest/intro/arch_overview/operations/hot_restart
type envoyRun struct {
	process *envoy.Process
	epoch   int
}

// handover reports that the Envoy of an epoch has taken over.
type handover struct{ epoch int }

// baseIDFile returns the file to which the first Envoy writes the base ID of the hot restart
// sequence: base-id in ProxyConfig.configPath.
func (o Options) baseIDFile() string { return filepath.Join(o.Config.GetConfigPath(), "base-id") }

// hotRestart returns Envoy's hot restart parameters, or nil if it is disabled. From the second
// epoch on it reads the base ID from a file, and fails if that is missing or invalid.
func (o Options) hotRestart() (*envoy.HotRestart, error) {
	if !o.Environment.HotRestart {
		return nil, nil
	}
	f := &envoy.HotRestart{Epoch: o.epoch, BaseIDFile: o.baseIDFile()}
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

// launchEnvoy writes the bootstrap of an epoch, starts its Envoy, and starts a goroutine that sends
// the run to a.exited when that Envoy exits. From epoch 1 on Envoy validates the configuration
// first, and an invalid one is returned as an error without a start.
func (a *agent) launchEnvoy(ctx context.Context, epoch int) (*envoyRun, error) {
	o := a.Options
	o.epoch = epoch
	c, err := Prepare(ctx, o)
	if err != nil {
		return nil, err
	}
	if epoch > 0 {
		// An Envoy that exits because of its configuration leaves the shared memory locked: no
		// further one could start.
		if err := envoy.Validate(ctx, c); err != nil {
			return nil, err
		}
	}
	process, err := envoy.Start(c)
	if err != nil {
		return nil, fmt.Errorf("%w (ProxyConfig.binaryPath)", err)
	}
	g := &envoyRun{process: process, epoch: epoch}
	a.Log.Info("envoy started", "pid", process.PID())
	go func() {
		<-process.Exited()
		a.exited <- g // does not block: the buffer holds all that can run at a time
	}()
	return g, nil
}

// startReplacement starts a new Envoy (a.next) with the current files to replace a.current, which
// stays active until the new one has taken over. If the new one cannot start, that is logged and
// nothing else changes. If a replacement is under way, it only sets a.restartAgain, so that another
// one follows. Without an Envoy (DISABLE_ENVOY) it does nothing.
func (a *agent) startReplacement(ctx context.Context) {
	if a.current == nil {
		return
	}
	if a.next != nil {
		a.restartAgain = true
		return
	}
	a.restartAgain = false
	g, err := a.launchEnvoy(ctx, a.current.epoch+1)
	if err != nil {
		a.Log.Error("cannot start a new envoy, keeping the current one", "error", err)
		return
	}
	a.next = g
	a.Log.Info("hot restart: new envoy started", "epoch", g.epoch)
	go a.awaitHandover(ctx, g)
}

// awaitHandover polls Envoy's admin interface until it reports the epoch of g in state LIVE, and
// then sends to a.handovers. It returns without sending if g exits or ctx ends. A failed request is
// repeated at the next poll.
func (a *agent) awaitHandover(ctx context.Context, g *envoyRun) {
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
		epoch, err := a.admin.RestartEpoch(asking)
		state := ""
		if err == nil && epoch == g.epoch {
			state, err = a.admin.ServerState(asking)
		}
		cancel()
		if err == nil && state == stateLive {
			select {
			case a.handovers <- handover{g.epoch}:
			case <-ctx.Done():
			}
			return
		}
	}
}

// stateLive is Envoy's state while it serves.
const stateLive = "LIVE"

// completeHandover makes a.next the active Envoy, also for a.readiness, and moves the previous one
// to a.older. A replacement that is active already, because the previous one has
// exited, stays active. In both cases it resets a.failures and, if another replacement was
// requested, starts that. It does nothing if h is of another epoch.
func (a *agent) completeHandover(ctx context.Context, h handover) {
	switch {
	case a.next != nil && a.next.epoch == h.epoch:
		a.older = append(a.older, a.current)
		a.current, a.next = a.next, nil
		a.readiness.SetEpoch(h.epoch)
		a.Log.Info("hot restart: new envoy has taken over, the previous one drains", "epoch", h.epoch)
	case a.next == nil && a.current.epoch == h.epoch:
		a.Log.Info("hot restart: new envoy is live, the previous one has exited", "epoch", h.epoch)
	default:
		return
	}
	a.failures = 0
	if a.restartAgain {
		a.startReplacement(ctx)
	}
}

// handleExit handles the exit of an Envoy while the agent is not stopping. If the active Envoy
// exits, a running replacement becomes active, and a further requested replacement waits for its
// handover. Without a running replacement it returns an *envoy.ExitError, which ends the agent. If
// the replacement exits, the active Envoy stays, and another replacement is requested after a
// backoff, unless maxAttempts in succession have failed. An older Envoy is removed from a.older.
func (a *agent) handleExit(g *envoyRun) error {
	switch g {
	case a.current:
		if a.next != nil { // the new one has nothing to take over, but serves
			a.current, a.next = a.next, nil
			a.readiness.SetEpoch(a.current.epoch)
			return nil
		}
		return a.exitError()
	case a.next:
		a.next = nil
		a.failures++
		// The failed attempt has closed the active Envoy's admin interface: it cannot be queried
		// until it is replaced.
		a.Log.Error("hot restart: new envoy "+g.process.Exit().String()+", the current one stays active",
			"epoch", g.epoch, "attempts", a.failures)
		if a.failures < maxAttempts {
			time.AfterFunc(minBackoff<<(a.failures-1), a.restartNow.Notify)
		}
	default:
		for i, o := range a.older {
			if o == g {
				a.older = append(a.older[:i:i], a.older[i+1:]...)
			}
		}
		a.Log.Info("hot restart: previous envoy has exited", "epoch", g.epoch)
	}
	return nil
}

// processes returns all running Envoys: the current one, the next one during a hot restart, and
// older ones that drain, in this order.
func (a *agent) processes() []*envoy.Process {
	var list []*envoy.Process
	for _, g := range append([]*envoyRun{a.current, a.next}, a.older...) {
		if g != nil {
			list = append(list, g.process)
		}
	}
	return list
}

// watchBootstrapFiles adds to p a watch of ProxyConfig.customConfigFile and one of the override
// file, if they are set. Each later change of a file requests a replacement of Envoy. It does
// nothing without hot restart. The error is always nil.
func (a *agent) watchBootstrapFiles(p *parts) error {
	if !a.Environment.HotRestart {
		return nil
	}
	for _, path := range []string{a.Config.GetCustomConfigFile(), a.Environment.BootstrapOverride} {
		if path == "" {
			continue
		}
		p.run = append(p.run, func(ctx context.Context) error {
			first := true
			o := watch.Options{Settle: a.Environment.Security.FileSettle, Logger: a.Log}
			watch.File(ctx, path, o, func([]byte) {
				if !first {
					a.Log.Info("bootstrap file has changed, replacing envoy", "file", path)
					a.restartNow.Notify()
				}
				first = false
			})
			return nil
		})
	}
	return nil
}
