package command

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/meshpilot/meshpilot/internal/capture/iptables"
)

// validationExitCode is the exit status of a failed --run-validation, as in Istio's program. The
// repair controller of the CNI plugin checks it.
const validationExitCode = 126

// New returns the command that applies the rules. lookup reads environment variables
// (os.LookupEnv), users resolves names (SystemUsers). open returns the environment in which rules
// are applied (iptables.System); it is called when the command runs, because flags of a parent
// command may configure the log.
//
// ExitCode returns the exit status for an error of the command.
func New(lookup func(string) (string, bool), users Users, open func() (iptables.Environment, error)) *cobra.Command {
	return newCommand(&cobra.Command{
		Use:   "istio-iptables",
		Short: "Set up the rules that send a pod's traffic to its sidecar",
		Long: "istio-iptables makes the kernel send the TCP traffic of a pod to its sidecar proxy.\n" +
			"It uses the iptables programs or, with --native-nftables or where there are none, nftables over netlink.",
	}, iptables.DefaultOptions(), lookup, users, open)
}

// NewClean returns the command that removes the rules, equal to New's with --cleanup-only. Istio no
// longer has it, but users and scripts still call it.
func NewClean(
	lookup func(string) (string, bool), users Users, open func() (iptables.Environment, error),
) *cobra.Command {
	options := iptables.DefaultOptions()
	options.CleanupOnly = true
	return newCommand(&cobra.Command{
		Use:   "istio-clean-iptables",
		Short: "Remove the rules that send a pod's traffic to its sidecar",
		Long:  "istio-clean-iptables removes the rules of istio-iptables, whatever options and programs applied them.",
	}, options, lookup, users, open)
}

// newCommand adds to cmd the flags of options and a function that runs it, and returns cmd. The
// function sets options that were not given on the command line from variables, which lookup
// returns, calls open, logs warnings about the variables and applies the rules. The function
// returns an error if a variable is invalid, or if open or applying fails. users resolves the names
// of users and groups.
func newCommand(
	cmd *cobra.Command, options iptables.Options,
	lookup func(string) (string, bool), users Users, open func() (iptables.Environment, error),
) *cobra.Command {
	cmd.Args = cobra.NoArgs
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	// A separate flag set, because cmd.Flags() includes a parent command's flags.
	fs := pflag.NewFlagSet(cmd.Use, pflag.ContinueOnError)
	bindFlags(fs, &options, users)
	cmd.Flags().SortFlags = false
	cmd.Flags().AddFlagSet(fs)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		warnings, err := setFromEnvironment(fs, &options, lookup, users)
		if err != nil {
			return err
		}
		env, err := open()
		if err != nil {
			return err
		}
		for _, w := range warnings {
			env.Log.Warn(w)
		}
		return iptables.Run(cmd.Context(), options, env)
	}
	return cmd
}

// Options returns the options for arguments and environment variables, for callers without a
// command line, and warnings about variables that are ignored. It returns an error and zero Options
// if an argument or variable is invalid or unknown.
func Options(
	args []string, lookup func(string) (string, bool), users Users,
) (options iptables.Options, warnings []string, err error) {
	options = iptables.DefaultOptions()
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	bindFlags(fs, &options, users)
	if err := fs.Parse(args); err != nil {
		return iptables.Options{}, nil, err
	}
	if fs.NArg() > 0 {
		return iptables.Options{}, nil, fmt.Errorf("unknown argument %q", fs.Arg(0))
	}
	if warnings, err = setFromEnvironment(fs, &options, lookup, users); err != nil {
		return iptables.Options{}, nil, err
	}
	return options, warnings, nil
}

// setFromEnvironment sets from environment variables the options that are not on the command line,
// and the proxy's owner. It returns warnings about variables that it ignores, and the first error.
func setFromEnvironment(
	fs *pflag.FlagSet, o *iptables.Options, lookup func(string) (string, bool), users Users,
) (warnings []string, err error) {
	if warnings, err = fillFromEnvironment(fs, lookup); err != nil {
		return nil, err
	}
	if err := fillEnvironmentOnly(o, users, lookup); err != nil {
		return nil, err
	}
	return warnings, fillOwner(fs, o, users, lookup)
}

// ExitCode returns the exit status for an error of the command: 0 for nil, 126 for a failed
// validation, else 1.
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

// variableError returns an error that names the variable, because the flag's own error only names
// the value.
func variableError(name string, err error) error {
	return fmt.Errorf("environment variable %s: %w", name, err)
}
