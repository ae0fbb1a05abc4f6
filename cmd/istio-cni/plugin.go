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
	// logName is the file name of the plugin's log: its standard error is visible only if a call
	// fails.
	logName = "istio-cni.log"
	// maxLog bounds the size of the log. A larger one is renamed, replacing the previous one.
	maxLog = 10 << 20
)

// runPlugin performs one call of the plugin and returns the exit status, 0 or 1. Errors are logged
// and printed in the form of the protocol, to which standard output belongs.
func runPlugin(ctx context.Context) int {
	call := func(do func(*cni.Plugin, context.Context, *skel.CmdArgs) error) func(*skel.CmdArgs) error {
		return func(args *skel.CmdArgs) error {
			log, end := openLog(args.StdinData)
			defer end()
			p := &cni.Plugin{Log: log, Out: os.Stdout, Environment: iptables.System(log, io.Discard)}
			err := do(p, ctx, args)
			if err != nil {
				log.Error("CNI call failed",
					"command", os.Getenv("CNI_COMMAND"), "container", args.ContainerID, "error", err)
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

// openLog returns a log in JSON with the level of a call's configuration, or the default level if
// that is invalid. It writes to standard error and, if RunDir of a valid configuration exists, to a
// file in it. end closes the file.
func openLog(configuration []byte) (log *slog.Logger, end func()) {
	out, end, level := io.Writer(os.Stderr), func() {}, ""
	if c, err := cni.ParseConfig(configuration); err == nil {
		level = c.LogLevelName()
		if f, err := openLogFile(filepath.Join(c.RunDir, logName)); err == nil {
			out, end = io.MultiWriter(os.Stderr, f), func() { _ = f.Close() }
		}
	}
	logs, err := obs.NewLogs(obs.LogOptions{Levels: level, JSON: true, Out: out})
	if err != nil { // an unknown level must not keep pods from starting
		logs, _ = obs.NewLogs(obs.LogOptions{JSON: true, Out: out})
	}
	return logs.Scope(obs.DefaultScope), end
}

// openLogFile opens a file to append to it, with mode 0600. A file larger than maxLog is first
// renamed to path.1, replacing an earlier one. A failure of either is an error.
func openLogFile(path string) (*os.File, error) {
	if info, err := os.Stat(path); err == nil && info.Size() > maxLog {
		if err := os.Rename(path, path+".1"); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
	}
	return os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
}
