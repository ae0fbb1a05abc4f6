package command

import (
	"context"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/meshpilot/meshpilot/internal/agent"
	"github.com/meshpilot/meshpilot/internal/base/command"
	"github.com/meshpilot/meshpilot/internal/base/obs"
)

// Options are what main gives to the command line.
type Options struct {
	// Environ is the environment as os.Environ gives it.
	Environ []string
	// Args is the command line without the program's name, to warn of unknown flags.
	Args           []string
	Stdout, Stderr io.Writer
	// Hurry is closed when the program is asked a second time to end.
	Hurry <-chan struct{}
	// Hangup is sent to for each SIGHUP.
	Hangup <-chan os.Signal
	// Extra makes further sub-commands (istio-iptables), which may log as the flags say once they run; nil: none.
	Extra func(*obs.LogOptions) []*cobra.Command
}

// New makes the command tree.
func New(o Options) *cobra.Command { return NewWith(o, agent.Run) }

// NewWith makes a command tree whose proxy command calls run instead of agent.Run. Tests read the options that it gets.
func NewWith(o Options, run func(context.Context, agent.Options) error) *cobra.Command {
	root := &cobra.Command{
		Use:           "pilot-agent",
		Short:         "Start and watch the Envoy beside an application",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	logs := obs.LogOptions{Out: o.Stdout}
	command.AddLogFlags(root.PersistentFlags(), &logs)
	root.SetOut(o.Stdout)
	root.SetErr(o.Stderr)
	root.AddCommand(
		proxyCommand(o, &logs, run),
		requestCommand(o),
		waitCommand(),
		command.Version(),
	)
	if o.Extra != nil {
		root.AddCommand(o.Extra(&logs)...)
	}
	command.TolerateUnknownFlags(root, o.Args, o.Stderr)
	return root
}
