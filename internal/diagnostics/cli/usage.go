package cli

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/meshpilot/meshpilot/internal/diagnostics/connect"
)

// describeUsage makes c and the commands below it name their usage in errors about arguments and
// flags. It wraps their FlagErrorFunc and Args. Errors about arguments also pass the FlagErrorFunc
// of a command, which determines the exit code.
func describeUsage(c *cobra.Command) {
	for _, sub := range c.Commands() { // first, because they inherit the function of c
		describeUsage(sub)
	}
	wrap := c.FlagErrorFunc()
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return wrap(c, usageError(c, err)) })
	if check := c.Args; check != nil {
		c.Args = func(c *cobra.Command, args []string) error {
			if err := check(c, args); err != nil {
				return wrap(c, usageError(c, err))
			}
			return nil
		}
	}
}

// usageError appends the usage of a command to an error about its arguments or flags.
func usageError(c *cobra.Command, err error) error {
	usage := strings.TrimSuffix(c.UseLine(), " [flags]")
	if c.HasAvailableSubCommands() {
		usage = c.CommandPath() + " COMMAND"
	}
	return fmt.Errorf("%w; usage: %s (%s --help has details)", err, usage, c.CommandPath())
}

// withAddressHint appends to the error of a refused connection that the control plane is expected at
// the default address because no other one is selected. It returns other errors unchanged.
func (a *pageClient) withAddressHint(err error) error {
	o := a.options()
	if !errors.Is(err, syscall.ECONNREFUSED) || len(o.Servers) > 0 || o.XDSAddress != "" || o.HasKubeconfig() {
		return err
	}
	return fmt.Errorf("%w; neither --server, --xds-address nor a kubeconfig selects a control plane, so it is expected at %s",
		err, connect.DefaultAddress)
}
