package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/version"

	"github.com/meshpilot/meshpilot/internal/base/obs"
	"github.com/meshpilot/meshpilot/internal/capture/cni"
	"github.com/meshpilot/meshpilot/internal/capture/iptables"
)

const (
	// logName is the plugin's log in its directory: what it writes to the standard error nobody sees unless a call fails.
	logName = "istio-cni.log"
	// maxLog bounds the log; a longer one is kept once, under another name.
	maxLog = 10 << 20
)

// runPlugin answers one call. The standard output is the protocol's.
func runPlugin(ctx context.Context) int {
	call := func(do func(*cni.Plugin, context.Context, *skel.CmdArgs) error) func(*skel.CmdArgs) error {
		return func(args *skel.CmdArgs) error {
			log, end := openLog(args.StdinData)
			defer end()
			p := &cni.Plugin{Log: log, Out: os.Stdout, Environment: iptables.System(log, io.Discard)}
			err := do(p, ctx, args)
			if err != nil {
				log.Error("the call failed", "command", os.Getenv("CNI_COMMAND"), "container", args.ContainerID, "error", err)
			}
			return err
		}
	}
	problem := skel.PluginMainFuncsWithError(skel.CNIFuncs{
		Add: call((*cni.Plugin).Add), Check: call((*cni.Plugin).Check), Del: call((*cni.Plugin).Delete),
		GC: call((*cni.Plugin).Collect), Status: call((*cni.Plugin).Status),
	}, version.All, "CNI plugin istio-cni "+obs.Version)
	if problem == nil {
		return 0
	}
	if err := problem.Print(); err != nil {
		fmt.Fprintln(os.Stderr, "istio-cni: writing the error:", err)
	}
	return 1
}

// openLog returns a log as the configuration of a call has it, to the standard error and, where there is such a directory, to a
// file. end closes it.
func openLog(configuration []byte) (log *slog.Logger, end func()) {
	out, end, level := io.Writer(os.Stderr), func() {}, ""
	if c, err := cni.ParseConfig(configuration); err == nil {
		level = c.Level()
		if f, err := openLogFile(filepath.Join(c.RunDir, logName)); err == nil {
			out, end = io.MultiWriter(os.Stderr, f), func() { _ = f.Close() }
		}
	}
	logs, err := obs.NewLogs(obs.LogOptions{Levels: level, JSON: true, Out: out})
	if err != nil { // an unknown level is no reason to start no pod
		logs, _ = obs.NewLogs(obs.LogOptions{JSON: true, Out: out})
	}
	return logs.Scope(obs.DefaultScope), end
}

func openLogFile(path string) (*os.File, error) {
	if info, err := os.Stat(path); err == nil && info.Size() > maxLog {
		if err := os.Rename(path, path+".1"); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
	}
	return os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
}
