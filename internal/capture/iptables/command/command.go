package command

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/meshpilot/meshpilot/internal/capture/iptables"
)

// validationExitCode is what Istio's program, and with it the repair controller of Istio's CNI plugin, has for a failed
// --run-validation.
const validationExitCode = 126

// New returns the command. lookup reads the environment (os.LookupEnv), users resolves names (SystemUsers). open returns what
// the rules are applied to (iptables.System); it is called when the command runs, for the flags of a parent command may
// say how to log.
//
// The error of the command is one sentence for the user; ExitCode has the status to exit with.
func New(lookup func(string) (string, bool), users Users, open func() (iptables.Environment, error)) *cobra.Command {
	return newCommand(&cobra.Command{
		Use:   "istio-iptables",
		Short: "Set up the rules that send a pod's traffic to its sidecar",
		Long: "istio-iptables makes the kernel send the TCP traffic of a pod to its sidecar proxy.\n" +
			"It uses the iptables programs or, with --native-nftables or where there are none, nftables over netlink.",
	}, iptables.DefaultOptions(), lookup, users, open)
}

// NewClean returns the command that removes what New's has done: it is that with --cleanup-only. Istio has no other name for
// it any more, but people and scripts do.
func NewClean(lookup func(string) (string, bool), users Users, open func() (iptables.Environment, error)) *cobra.Command {
	options := iptables.DefaultOptions()
	options.CleanupOnly = true
	return newCommand(&cobra.Command{
		Use:   "istio-clean-iptables",
		Short: "Remove the rules that send a pod's traffic to its sidecar",
		Long:  "istio-clean-iptables removes the rules of istio-iptables, whichever options and programs they were made with.",
	}, options, lookup, users, open)
}

func newCommand(cmd *cobra.Command, options iptables.Options, lookup func(string) (string, bool), users Users, open func() (iptables.Environment, error)) *cobra.Command {
	cmd.Args = cobra.NoArgs
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	// A set of their own, for cmd.Flags() has those of a parent command too.
	fs := pflag.NewFlagSet(cmd.Use, pflag.ContinueOnError)
	bindFlags(fs, &options, users)
	cmd.Flags().SortFlags = false
	cmd.Flags().AddFlagSet(fs)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := fill(fs, &options, lookup, users); err != nil {
			return err
		}
		env, err := open()
		if err != nil {
			return err
		}
		return iptables.Run(cmd.Context(), options, env)
	}
	return cmd
}

// Options returns what New's command would run with: for who has arguments and variables from elsewhere than a command line.
func Options(args []string, lookup func(string) (string, bool), users Users) (iptables.Options, error) {
	options := iptables.DefaultOptions()
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	bindFlags(fs, &options, users)
	if err := fs.Parse(args); err != nil {
		return iptables.Options{}, err
	}
	if fs.NArg() > 0 {
		return iptables.Options{}, fmt.Errorf("unknown argument %q", fs.Arg(0))
	}
	if err := fill(fs, &options, lookup, users); err != nil {
		return iptables.Options{}, err
	}
	return options, nil
}

// fill sets what the command line did not.
func fill(fs *pflag.FlagSet, o *iptables.Options, lookup func(string) (string, bool), users Users) error {
	if err := fillFromEnvironment(fs, lookup); err != nil {
		return err
	}
	if err := fillEnvironmentOnly(o, users, lookup); err != nil {
		return err
	}
	return fillOwner(fs, o, users, lookup)
}

// ExitCode is the exit status for an error of the command: 0 for none, 126 for a failed validation, else 1.
func ExitCode(err error) int {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, iptables.ErrValidation):
		return validationExitCode
	default:
		return 1
	}
}

// variableError names the variable, where the flag's own error would only name the value.
func variableError(name string, err error) error {
	return fmt.Errorf("environment variable %s: %w", name, err)
}
