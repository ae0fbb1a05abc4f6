package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/netns"
	"github.com/meshpilot/meshpilot/samples/bookinfo"
	"github.com/meshpilot/meshpilot/samples/bookinfo/mesh"
	"github.com/meshpilot/meshpilot/samples/bookinfo/screen"
)

// tailLines is how much of a log is shown when its process failed.
const tailLines = 25

// run is the whole demo, in its world. It returns the exit status.
func run(opts options) int {
	scr := screen.Terminal(os.Stdout, os.Getenv("NO_COLOR") != "")
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	dir, err := makeDir(opts.dir)
	if err != nil {
		scr.Line(screen.Red, "demo: %v", err)
		return 1
	}
	begin := time.Now()
	code := runIn(ctx, stop, scr, dir, opts)
	if code == 0 && opts.remove {
		if err := os.RemoveAll(dir); err != nil {
			scr.Line(screen.Red, "demo: %v", err)
			code = 1
		}
	} else {
		scr.Line(screen.Plain, "Logs and configuration are in %s", dir)
	}
	scr.Line(screen.Dim, "The demo took %s.", time.Since(begin).Round(100*time.Millisecond))
	return code
}

// runIn starts the mesh, plays, and closes the mesh whatever happened.
func runIn(ctx context.Context, stop func(), scr *screen.Screen, dir string, opts options) int {
	scr.Line(screen.Bold, "Bringing up a mesh, logs in %s", dir)
	begin := time.Now()
	m, err := mesh.Start(ctx, mesh.Options{
		Binaries:  opts.binaries,
		Envoy:     opts.envoy,
		Sidecars:  true,
		Dir:       dir,
		Manifests: bookinfo.Platform(),
		Progress:  scr.Say,
		Consul:    opts.consul,
	})
	if err != nil {
		showFailure(scr, err)
		return 1
	}
	scr.Say("all is ready after %s", time.Since(begin).Round(10*time.Millisecond))

	server, err := listenForCommands(dir, m.Network, stop)
	if err != nil {
		showFailure(scr, errors.Join(err, m.Close()))
		return 1
	}
	if opts.console != "" {
		scr.Line(screen.Bold, "The web console, while the demo runs: %s", opts.console)
	}
	code := perform(ctx, scr, m, dir, opts)
	server.Close()
	scr.Line(screen.Plain, "Ending the mesh.")
	if err := m.Close(); err != nil {
		showFailure(scr, err)
		code = max(code, 1)
	}
	return code
}

func perform(ctx context.Context, scr *screen.Screen, m *mesh.Mesh, dir string, opts options) int {
	client := mesh.NewCaller(m.Workload("client").Node)
	defer client.Close()
	s := &stage{mesh: m, client: client, screen: scr, binaries: opts.binaries, dir: dir}
	scenes := story()
	if m.Consul != nil {
		scenes = consulStory()
	}
	if err := s.tell(ctx, scenes); err != nil {
		scr.Line(screen.Red, "The story was broken off: %v", err)
		return 1
	}
	code := 0
	if s.failed > 0 {
		scr.Line(screen.Red, "%d things were not as expected.", s.failed)
		code = 1
	} else {
		scr.Line(screen.Green, "All was as expected.")
	}
	if opts.keep {
		if err := s.applyLastRule(); err != nil {
			showFailure(scr, err)
			return 1
		}
		if err := keep(ctx, scr, m, dir, opts); err != nil {
			showFailure(scr, err)
			return 1
		}
	}
	return code
}

// showFailure tells an error, and what the log of a process that caused it says last.
func showFailure(scr *screen.Screen, err error) {
	scr.Line(screen.Red, "demo: %v", err)
	var failed *netns.ProcessError
	if !errors.As(err, &failed) {
		return
	}
	scr.Line(screen.Plain, "The end of %s:", failed.Log)
	scr.Line(screen.Dim, "%s", failed.Tail(tailLines))
}

// makeDir makes the demo's directory, open to all: sidecars run as another user.
func makeDir(dir string) (string, error) {
	if dir != "" {
		abs, err := filepath.Abs(dir)
		if err != nil {
			return "", err
		}
		return abs, os.MkdirAll(abs, 0o755)
	}
	dir, err := os.MkdirTemp("", dirPattern)
	if err != nil {
		return "", fmt.Errorf("making a directory for logs: %w", err)
	}
	return dir, os.Chmod(dir, 0o755)
}
