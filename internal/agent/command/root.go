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

// Options are the inputs of the command line.
type Options struct {
	// Environ is the environment in the form of os.Environ.
	Environ []string
	// Args is the command line without the program's name, for warnings about unknown flags.
	Args           []string
	Stdout, Stderr io.Writer
	// Abort is closed when the program receives a second signal to end.
	Abort <-chan struct{}
	// Hangup receives each SIGHUP.
	Hangup <-chan os.Signal
	// ExtraCommands returns further sub-commands (istio-iptables). Their logs follow the log
	// options, which are set once they run. It may be nil.
	ExtraCommands func(*obs.LogOptions) []*cobra.Command
}

// New returns the command tree of pilot-agent, whose proxy command calls agent.Run.
func New(o Options) *cobra.Command { return NewWithRunner(o, agent.Run) }

// NewWithRunner returns the command pilot-agent with proxy, request, wait, version and
// o.ExtraCommands. Its proxy command calls run instead of agent.Run, so that tests can inspect the
// options passed to it. Unknown flags cause only a warning.
func NewWithRunner(o Options, run func(context.Context, agent.Options) error) *cobra.Command {
	root := &cobra.Command{
		Use:           "pilot-agent",
		Short:         "Start and supervise the Envoy beside an application",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	logs := obs.LogOptions{Out: o.Stdout}
	command.AddLogFlags(root.PersistentFlags(), &logs)
	root.SetOut(o.Stdout)
	root.SetErr(o.Stderr)
	root.AddCommand(proxyCommand(o, &logs, run), requestCommand(o), waitCommand(), command.Version())
	if o.ExtraCommands != nil {
		root.AddCommand(o.ExtraCommands(&logs)...)
	}
	command.TolerateUnknownFlags(root, o.Args, o.Stderr)
	command.AddCollateral(root, "meshpilot Agent")
	return root
}
